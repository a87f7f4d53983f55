#![expect(unsafe_code, reason = "owns memory that C++ reads and writes; each block says why it is sound")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::slice;

/// A page, as registration for direct transfers wants it.
const ALIGNMENT_BYTES: usize = 4096;

/// Memory of the engine's own. Whoever has it is the only one that touches it; while a request runs, the request has
/// it (see [`Request`](crate::request::Request)).
pub(crate) struct Buffer {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain bytes with one owner.
unsafe impl Send for Buffer {}

impl Buffer {
    /// `bytes` of zeroes, at least 1; `None` if there is no room.
    pub(crate) fn zeroed(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT_BYTES).ok()?;
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { base, layout })
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    pub(crate) fn address(&self) -> usize {
        self.base.as_ptr().expose_provenance()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: initialised at allocation, and nobody else touches it while we are borrowed.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.layout.size()) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, with a borrow that excludes every other.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

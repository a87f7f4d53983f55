use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::lease::{Access, Lease, LeaseError, SlotState};
use crate::{Error, ErrorKind};

/// Alignment of memory that kvtier allocates: a page, as direct I/O and registration want it.
const ALIGNMENT_BYTES: usize = 4096;

/// Where the slots of a memory are: `slots` blocks of `block_bytes`, the first byte of each
/// `stride_bytes` after the first byte of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLayout {
    /// Bytes of one block; what one object holds. At least 1.
    pub block_bytes: usize,
    /// Bytes from one slot's start to the next one's. At least `block_bytes`.
    pub stride_bytes: usize,
    /// Number of slots. At least 1.
    pub slots: u32,
}

impl SlotLayout {
    /// Bytes from the first byte of the first slot to the last byte of the last one.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a size is zero, the stride is shorter than a block, or the
    /// whole does not fit in `isize::MAX` bytes.
    fn span_bytes(&self) -> Result<usize, Error> {
        let fail = |why: &str| Err(Error::new(ErrorKind::Config, format!("{why} in {self:?}")));
        if self.block_bytes == 0 || self.slots == 0 {
            return fail("blocks and slots must not be zero");
        }
        if self.stride_bytes < self.block_bytes {
            return fail("the stride is shorter than a block");
        }
        let span = usize::try_from(self.slots - 1)
            .ok()
            .and_then(|before| before.checked_mul(self.stride_bytes))
            .and_then(|start| start.checked_add(self.block_bytes))
            .filter(|span| isize::try_from(*span).is_ok());
        match span {
            Some(span) => Ok(span),
            None => fail("the memory does not fit in the address space"),
        }
    }
}

/// The primary tier's memory as kvtier sees it: numbered slots of equal size.
///
/// Each slot is leased at run time: any number of readers, or one writer. The memory stays
/// alive as long as anything holds the `Arc`, every [`Lease`] included.
pub struct HostMemory {
    base: NonNull<u8>,
    layout: SlotLayout,
    states: Box<[SlotState]>,
    quarantined: AtomicU32,
    /// Dropped last, after every lease: frees or un-maps the bytes.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: `base` points to bytes that `_owner`, itself `Send + Sync`, keeps valid on every
// thread; which thread touches a slot's bytes, and when, is decided by the atomic slot states.
unsafe impl Send for HostMemory {}
// SAFETY: as for `Send`: shared access reaches bytes only through leases, which are exclusive
// for writers and shared for readers.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates zeroed, page-aligned memory of `slots` blocks of `block_bytes` each.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a size is zero or too large, or the allocator has no room.
    pub fn allocate(block_bytes: usize, slots: u32) -> Result<Arc<Self>, Error> {
        let layout = SlotLayout { block_bytes, stride_bytes: block_bytes, slots };
        let owned = OwnedBytes::zeroed(layout.span_bytes()?)?;
        let base = owned.base;
        // SAFETY: `owned` is `span_bytes` long, nobody else has its address, and it moves into
        // the memory as the owner that keeps it alive.
        unsafe { Self::from_raw(base, layout, owned) }
    }

    /// Takes memory that somebody else allocated, and `owner`, which keeps it alive.
    ///
    /// # Safety
    /// - From `base`, every byte that `layout` spans is valid for reads and writes, on any
    ///   thread, until `owner` is dropped.
    /// - While a slot is leased for a load ([`Access::Write`]), nothing else reads or writes
    ///   it; while it is leased for a store ([`Access::Read`]), nothing writes it. A slot is
    ///   leased from the moment a job with it is accepted until the job's report.
    /// - A slot that a report names as [`ErrorKind::Lost`] may still be written by the engine
    ///   for the rest of the process's life: it must not be used again.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a size in `layout` is zero, or the stride is shorter than a block.
    pub unsafe fn from_raw(
        base: NonNull<u8>,
        layout: SlotLayout,
        owner: impl Any + Send + Sync,
    ) -> Result<Arc<Self>, Error> {
        layout.span_bytes()?;
        let states = (0..layout.slots).map(|_| SlotState::default()).collect();
        let quarantined = AtomicU32::new(0);
        Ok(Arc::new(Self { base, layout, states, quarantined, _owner: Box::new(owner) }))
    }

    /// Bytes of one block.
    pub fn block_bytes(&self) -> usize {
        self.layout.block_bytes
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// How the slots lie in memory.
    pub fn layout(&self) -> SlotLayout {
        self.layout
    }

    /// Slots given up for ever because an engine may still touch them.
    pub fn quarantined_slots(&self) -> u32 {
        self.quarantined.load(Ordering::Relaxed)
    }

    /// Slots that somebody holds a lease on now, quarantined ones not counted. Costs one load per slot: for
    /// tests and reports.
    pub fn leased_slots(&self) -> u32 {
        let leased = self.states.iter().filter(|state| state.is_leased()).count();
        u32::try_from(leased).unwrap_or(u32::MAX)
    }

    /// Leases a slot: shared with other readers, or for one writer alone. Never waits.
    ///
    /// # Errors
    /// [`LeaseError`] if there is no such slot, or its present holders exclude this access.
    pub fn lease(self: &Arc<Self>, slot: u32, access: Access) -> Result<Lease, LeaseError> {
        let state = usize::try_from(slot)
            .ok()
            .and_then(|index| self.states.get(index))
            .ok_or(LeaseError::OutOfRange { slot, slots: self.layout.slots })?;
        state.acquire(access).map_err(|busy| busy.at(slot))?;
        Ok(Lease::acquired(Arc::clone(self), slot, access))
    }

    /// The state of a slot that a lease holds.
    pub(super) fn state(&self, slot: u32) -> &SlotState {
        &self.states[slot as usize]
    }

    pub(super) fn count_quarantined(&self) {
        self.quarantined.fetch_add(1, Ordering::Relaxed);
    }

    /// The first byte, and the bytes up to the end of the last slot.
    pub(super) fn range(&self) -> (NonNull<u8>, usize) {
        let SlotLayout { block_bytes, stride_bytes, slots } = self.layout;
        // Proved to fit by `span_bytes` when the memory was made.
        (self.base, (slots as usize - 1) * stride_bytes + block_bytes)
    }

    /// The first byte of a slot that a lease holds.
    pub(super) fn slot_base(&self, slot: u32) -> NonNull<u8> {
        debug_assert!(slot < self.layout.slots, "a lease holds a slot out of range");
        // SAFETY: the lease proves slot < slots, and `span_bytes` proved that every slot's start
        // is inside the allocation.
        unsafe { self.base.add(slot as usize * self.layout.stride_bytes) }
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory")
            .field("layout", &self.layout)
            .field("quarantined", &self.quarantined_slots())
            .finish_non_exhaustive()
    }
}

/// Bytes from the global allocator, freed on drop.
struct OwnedBytes {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain bytes with one owner; the owner alone frees them.
unsafe impl Send for OwnedBytes {}
// SAFETY: a shared reference gives no access to the bytes.
unsafe impl Sync for OwnedBytes {}

impl OwnedBytes {
    fn zeroed(bytes: usize) -> Result<Self, Error> {
        let no_room =
            || Error::new(ErrorKind::Config, format!("cannot allocate {bytes} bytes of host memory"));
        let layout = Layout::from_size_align(bytes, ALIGNMENT_BYTES).map_err(|_| no_room())?;
        // SAFETY: `span_bytes` never returns zero, so the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_room)?;
        Ok(Self { base, layout })
    }
}

impl Drop for OwnedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(block_bytes: usize, stride_bytes: usize, slots: u32) -> SlotLayout {
        SlotLayout { block_bytes, stride_bytes, slots }
    }

    /// Sizes that make no sense are refused before anything is allocated.
    #[test]
    fn impossible_layouts_are_config_errors() {
        for bad in [
            layout(0, 4096, 1),
            layout(4096, 4096, 0),
            layout(4096, 4095, 2),
            layout(usize::MAX / 2 + 1, usize::MAX / 2 + 1, 1),
            layout(1 << 40, 1 << 40, u32::MAX),
        ] {
            assert_eq!(bad.span_bytes().unwrap_err().kind(), ErrorKind::Config, "{bad:?}");
        }
    }

    /// An allocation that the machine cannot serve is an error, not an abort.
    #[test]
    fn an_allocation_too_large_is_an_error() {
        let error = HostMemory::allocate(1 << 45, 1 << 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    /// Foreign memory with a stride keeps the bytes between blocks untouched, and its owner
    /// lives until the last lease is gone.
    #[test]
    fn foreign_memory_respects_stride_and_keeps_its_owner() {
        let alive = Arc::new(());
        let mut bytes = vec![0xEE_u8; 3 * 8].into_boxed_slice();
        let base = NonNull::new(bytes.as_mut_ptr()).unwrap();
        // SAFETY: the boxed bytes move into the owner, so they outlive the memory, and nothing
        // else touches them.
        let memory =
            unsafe { HostMemory::from_raw(base, layout(5, 8, 3), (Arc::clone(&alive), bytes)) }.unwrap();
        let mut lease = memory.lease(1, Access::Write).unwrap();
        lease.copy_in(0, &[1, 2, 3, 4, 5]);
        drop(memory);
        assert_eq!(lease.to_vec(), [1, 2, 3, 4, 5]);
        // SAFETY: the lease keeps the memory alive; byte 13 is inside the 24 bytes.
        assert_eq!(unsafe { base.add(13).read() }, 0xEE, "padding was written");
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(lease);
        assert_eq!(Arc::strong_count(&alive), 1, "the owner outlived its last lease");
    }
}

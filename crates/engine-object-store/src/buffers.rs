use std::sync::Arc;

use bytes::Bytes;
use kvtier_core::Transfer;
use parking_lot::Mutex;

/// Copies of blocks on their way to the store, in buffers that are used again: a fresh one of 1 MiB costs 256 page
/// faults, about as much as the copy itself.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

/// Most memory that waits for the next stores: after a burst, until the next one.
const FREE_BYTES_MAX: usize = 64 << 20;

impl Buffers {
    /// The block as bytes that own their memory. The buffer comes back when the last of them is dropped.
    pub(crate) fn copy(self: &Arc<Self>, transfer: &Transfer) -> Bytes {
        let free = self.free.lock().pop();
        let bytes = match free {
            Some(mut bytes) if bytes.len() == transfer.block_bytes() => {
                transfer.copy_out(0, &mut bytes);
                bytes
            }
            _ => transfer.to_vec(),
        };
        Bytes::from_owner(Buffer { bytes, home: Arc::clone(self) })
    }
}

struct Buffer {
    bytes: Vec<u8>,
    home: Arc<Buffers>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.home.free.lock();
        if (free.len() + 1) * self.bytes.len() <= FREE_BYTES_MAX {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use kvtier_core::{Access, CompletionQueue, Direction, HostMemory, ObjectKey, TransferId};

    use super::*;

    fn transfer(bytes: &[u8]) -> Transfer {
        let memory = HostMemory::allocate(bytes.len(), 1).unwrap();
        memory.lease(0, Access::Write).unwrap().copy_in(0, bytes);
        let (key, lease) = (ObjectKey::new("a").unwrap(), memory.lease(0, Access::Read).unwrap());
        Transfer::new(TransferId(1), Direction::Store, key, lease, &Arc::new(CompletionQueue::default()))
    }

    /// A buffer serves the next block when nobody holds it any more, never before, and holds that block alone.
    #[test]
    fn a_buffer_is_used_again_when_it_is_free() {
        let buffers = Arc::new(Buffers::default());
        let first = buffers.copy(&transfer(b"first"));
        let held = first.clone();
        let at = first.as_ptr();
        drop(first);
        let second = buffers.copy(&transfer(b"other"));
        assert_eq!((&held[..], &second[..]), (&b"first"[..], &b"other"[..]));
        drop(held);
        let third = buffers.copy(&transfer(b"third"));
        assert_eq!((third.as_ptr(), &third[..]), (at, &b"third"[..]));
        drop(third);
        assert_eq!(buffers.copy(&transfer(b"longer")), &b"longer"[..]);
    }

    /// What waits for use is bounded.
    #[test]
    fn the_memory_that_waits_is_bounded() {
        let buffers = Arc::new(Buffers::default());
        let block = vec![0; FREE_BYTES_MAX / 2];
        drop((0..3).map(|_| buffers.copy(&transfer(&block))).collect::<Vec<_>>());
        assert_eq!(buffers.free.lock().len(), 2);
    }
}

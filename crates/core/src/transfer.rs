use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crate::completion::{Completion, CompletionQueue};
use crate::{Access, Error, ErrorKind, Lease, ObjectKey};

/// Which way a block moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Host memory to object store.
    Store,
    /// Object store to host memory.
    Load,
}

impl Direction {
    /// What a slot must be leased for to move its block this way.
    pub const fn access(self) -> Access {
        match self {
            Self::Store => Access::Read,
            Self::Load => Access::Write,
        }
    }

    /// `store` or `load`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Load => "load",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of one attempt to move one block; never used twice by a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(pub u64);

/// One block on its way: the only hold an engine has on a slot, and not `Clone`.
///
/// # Contract
/// - Whoever has the transfer has the slot. The bytes are reached through it alone, so
///   [`complete`](Self::complete), which consumes it, is the last access.
/// - At most one completion is by type. That there is exactly one is the engine's duty.
/// - Dropped without a completion (a panic, a cancelled task): the block is reported
///   as failed with [`ErrorKind::Closed`] and its slot given back; but if the transfer was [exposed](Self::expose),
///   something outside Rust may still touch the slot, which is then quarantined for ever and the block
///   reported as [`ErrorKind::Lost`]. Leak before corrupt.
pub struct Transfer {
    id: TransferId,
    direction: Direction,
    key: ObjectKey,
    deadline: Option<Instant>,
    exposed: bool,
    /// Taken by `complete`; what is still here at drop was never completed.
    lease: Option<Lease>,
    queue: Arc<CompletionQueue>,
}

impl Transfer {
    /// A transfer that posts its completion to `queue`. The tier makes these; tests of engines may, too.
    ///
    /// # Panics
    /// If `lease` is not for the access that `direction` needs.
    pub fn new(
        id: TransferId,
        direction: Direction,
        key: ObjectKey,
        lease: Lease,
        queue: &Arc<CompletionQueue>,
    ) -> Self {
        assert_eq!(lease.access(), direction.access(), "a {direction} needs the other lease");
        let queue = Arc::clone(queue);
        Self { id, direction, key, deadline: None, exposed: false, lease: Some(lease), queue }
    }

    /// The same transfer with a moment by which the engine gives up, if it can do so safely.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The transfer's number.
    pub fn id(&self) -> TransferId {
        self.id
    }

    /// Which way the block moves.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// The object's name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// When the caller stops being interested. An engine that can abandon the I/O without
    /// leaving anybody with access to the slot completes with [`ErrorKind::Timeout`] then; any other ignores it.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Bytes of the block; exactly what the object must hold.
    pub fn block_bytes(&self) -> usize {
        self.lease().block_bytes()
    }

    /// Copies bytes of a load into the slot, starting `at` bytes into the block.
    ///
    /// # Panics
    /// If this is a store, or the bytes do not fit in the block.
    pub fn copy_in(&mut self, at: usize, from: &[u8]) {
        let Some(lease) = &mut self.lease else { unreachable!("{HELD}") };
        lease.copy_in(at, from);
    }

    /// Copies bytes out of the slot, starting `at` bytes into the block.
    ///
    /// # Panics
    /// If the bytes reach past the end of the block.
    pub fn copy_out(&self, at: usize, to: &mut [u8]) {
        self.lease().copy_out(at, to);
    }

    /// The whole block as a new vector, with one copy.
    pub fn to_vec(&self) -> Vec<u8> {
        self.lease().to_vec()
    }

    /// The slot's address, for C++ or the kernel to read ([`Direction::Store`]) or write
    /// ([`Direction::Load`]) [`block_bytes`](Self::block_bytes) bytes.
    ///
    /// From now on a drop without completion quarantines the slot: the engine must complete only
    /// when nothing holds the address any more.
    pub fn expose(&mut self) -> NonNull<u8> {
        self.exposed = true;
        self.lease().base()
    }

    /// The address of the first byte and the length in bytes of the whole memory that the slot is part of, for
    /// an engine that registers memory once. Gives nobody access.
    pub fn memory_range(&self) -> (usize, usize) {
        let (base, bytes) = self.lease().memory_range();
        (base.addr().get(), bytes)
    }

    /// Ends the transfer: the last access to the slot has happened. Never blocks, callable from
    /// any thread.
    ///
    /// `Ok` says that the whole block, and exactly the block, was moved: for a load, the slot holds the object's
    /// bytes; for a store, the object is readable by anybody. After `Err` a load's slot holds unspecified bytes.
    pub fn complete(mut self, result: Result<(), Error>) {
        self.post(result);
    }

    fn post(&mut self, result: Result<(), Error>) {
        let lease = self.lease.take();
        self.queue.post_completion(Completion { id: self.id, lease, result });
    }

    fn lease(&self) -> &Lease {
        let Some(lease) = &self.lease else { unreachable!("{HELD}") };
        lease
    }
}

const HELD: &str = "only `complete` and `drop` take the lease";

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.lease.is_none() {
            return;
        }
        let dropped =
            |kind| Error::new(kind, format!("the engine dropped the {} of {}", self.direction, self.key));
        if !self.exposed {
            let error = dropped(ErrorKind::Closed);
            self.post(Err(error));
            return;
        }
        let error = dropped(ErrorKind::Lost);
        if let Some(lease) = self.lease.take() {
            tracing::error!(target: "kvtier::memory", slot = lease.slot(), key = %self.key, "slot quarantined: its exposed transfer was dropped");
            lease.quarantine();
        }
        self.post(Err(error));
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("id", &self.id)
            .field("direction", &self.direction)
            .field("key", &self.key)
            .field("lease", &self.lease)
            .field("exposed", &self.exposed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostMemory;

    fn transfer(memory: &Arc<HostMemory>, queue: &Arc<CompletionQueue>, direction: Direction) -> Transfer {
        let lease = memory.lease(0, direction.access()).unwrap();
        Transfer::new(TransferId(7), direction, ObjectKey::new("a").unwrap(), lease, queue)
    }

    fn setup() -> (Arc<HostMemory>, Arc<CompletionQueue>) {
        (HostMemory::allocate(8, 1).unwrap(), Arc::default())
    }

    /// A completion carries the lease back: the slot stays taken until the consumer lets it go.
    #[test]
    fn completion_returns_the_lease() {
        let (memory, queue) = setup();
        transfer(&memory, &queue, Direction::Store).complete(Ok(()));
        let posted = queue.take();
        assert_eq!(posted.transfers.len(), 1);
        assert!(posted.transfers[0].lease.is_some());
        assert_eq!(memory.leased_slots(), 1);
        drop(posted);
        assert_eq!(memory.leased_slots(), 0);
    }

    /// Dropped by the engine before anybody got the address: failed as closed, slot free again.
    #[test]
    fn an_unexposed_drop_gives_the_slot_back() {
        let (memory, queue) = setup();
        drop(transfer(&memory, &queue, Direction::Load));
        let posted = queue.take();
        assert_eq!(posted.transfers[0].result.as_ref().unwrap_err().kind(), ErrorKind::Closed);
        drop(posted);
        assert!(memory.lease(0, Access::Write).is_ok());
    }

    /// Dropped after the address left Rust, also by a panic: reported lost, slot quarantined.
    #[test]
    fn an_exposed_drop_quarantines_the_slot() {
        let (memory, queue) = setup();
        let mut exposed = transfer(&memory, &queue, Direction::Load);
        exposed.expose();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = exposed;
            panic!("planted");
        }));
        assert!(unwound.is_err());
        let posted = queue.take();
        assert_eq!(posted.transfers[0].result.as_ref().unwrap_err().kind(), ErrorKind::Lost);
        assert!(posted.transfers[0].lease.is_none());
        assert_eq!(memory.quarantined_slots(), 1);
        assert!(memory.lease(0, Access::Read).is_err());
    }

    /// A store cannot write the slot.
    #[test]
    #[should_panic(expected = "leased for reading")]
    fn a_store_cannot_copy_in() {
        let (memory, queue) = setup();
        transfer(&memory, &queue, Direction::Store).copy_in(0, &[1]);
    }
}

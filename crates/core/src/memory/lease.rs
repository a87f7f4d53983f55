use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::HostMemory;
use crate::sync::AtomicU32;

/// What a lease allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read the slot, beside other readers: what a store needs.
    Read,
    /// Read and write the slot, alone: what a load needs.
    Write,
}

/// Why a slot could not be leased. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The memory has no such slot.
    #[error("slot {slot} is out of range: the memory has {slots} slots")]
    OutOfRange {
        /// The slot asked for.
        slot: u32,
        /// How many slots there are.
        slots: u32,
    },
    /// Others read the slot, so it cannot be written.
    #[error("slot {slot} is being read")]
    Read {
        /// The slot asked for.
        slot: u32,
    },
    /// Somebody writes the slot.
    #[error("slot {slot} is being written")]
    Written {
        /// The slot asked for.
        slot: u32,
    },
    /// The slot is given up for ever: an engine may still touch it.
    #[error("slot {slot} is quarantined")]
    Quarantined {
        /// The slot asked for.
        slot: u32,
    },
}

/// Why [`SlotState::acquire`] refused.
pub(super) enum Busy {
    Read,
    Written,
    Quarantined,
}

impl Busy {
    pub(super) fn at(self, slot: u32) -> LeaseError {
        match self {
            Self::Read => LeaseError::Read { slot },
            Self::Written => LeaseError::Written { slot },
            Self::Quarantined => LeaseError::Quarantined { slot },
        }
    }
}

const QUARANTINED: u32 = 1 << 31;
const WRITTEN: u32 = 1 << 30;

/// Who holds a slot: a quarantine bit, a writer bit, and the number of readers below them.
#[derive(Default)]
pub(super) struct SlotState(AtomicU32);

impl SlotState {
    pub(super) fn acquire(&self, access: Access) -> Result<(), Busy> {
        let admit = |state: u32| match access {
            Access::Read if state < WRITTEN - 1 => Some(state + 1),
            Access::Write if state == 0 => Some(WRITTEN),
            Access::Read | Access::Write => None,
        };
        // Acquire pairs with the release of the holder before: its last access is seen.
        match self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, admit) {
            Ok(_) => Ok(()),
            Err(state) if state & QUARANTINED != 0 => Err(Busy::Quarantined),
            Err(state) if state & WRITTEN != 0 => Err(Busy::Written),
            Err(_) => Err(Busy::Read),
        }
    }

    fn release(&self, access: Access) {
        let held = match access {
            Access::Read => 1,
            Access::Write => WRITTEN,
        };
        self.0.fetch_sub(held, Ordering::Release);
    }

    /// Closes the slot for ever; says whether it was open before. Other readers may still
    /// release theirs.
    fn quarantine(&self) -> bool {
        self.0.fetch_or(QUARANTINED, Ordering::Relaxed) & QUARANTINED == 0
    }

    pub(super) fn is_leased(&self) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        state != 0 && state & QUARANTINED == 0
    }
}

/// The right to touch one slot, held by one owner, given back on drop.
///
/// A lease is the only way to a slot's bytes. It is not `Clone`, and it keeps its memory alive.
pub struct Lease {
    memory: Arc<HostMemory>,
    slot: u32,
    access: Access,
}

impl Lease {
    /// Wraps a slot whose state has been acquired for `access`.
    pub(super) fn acquired(memory: Arc<HostMemory>, slot: u32, access: Access) -> Self {
        Self { memory, slot, access }
    }

    /// The slot's number.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// What this lease allows.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Bytes of the block in the slot.
    pub fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    /// Copies `from` into the slot, starting `at` bytes into the block.
    ///
    /// # Panics
    /// If the lease is for reading, or the bytes do not fit in the block.
    pub fn copy_in(&mut self, at: usize, from: &[u8]) {
        assert!(self.access == Access::Write, "slot {} is leased for reading", self.slot);
        let to = self.range(at, from.len());
        // SAFETY: `range` proved that the bytes are inside the slot, the slot is leased to us
        // alone, and `from` cannot overlap it because no reference into a slot exists.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) }
    }

    /// Copies bytes of the slot, starting `at` bytes into the block, into `to`.
    ///
    /// # Panics
    /// If the bytes reach past the end of the block.
    pub fn copy_out(&self, at: usize, to: &mut [u8]) {
        let from = self.range(at, to.len());
        // SAFETY: `range` proved that the bytes are inside the slot; our lease keeps writers
        // out; `to` cannot overlap it because no reference into a slot exists.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) }
    }

    /// The whole block as a new vector, with one copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let bytes = self.block_bytes();
        let mut to = Vec::with_capacity(bytes);
        let from = self.range(0, bytes);
        // SAFETY: as in `copy_out`; the vector has room for `bytes`, all of which are written
        // before the length says so.
        unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), bytes);
            to.set_len(bytes);
        }
        to
    }

    /// The slot's first byte, for an FFI call.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.memory.slot_base(self.slot)
    }

    /// The first byte and the length of the whole memory, for registration.
    pub(crate) fn memory_range(&self) -> (NonNull<u8>, usize) {
        self.memory.range()
    }

    /// Gives the slot up for ever: the memory stays alive and nobody gets a lease on it again.
    pub(crate) fn quarantine(self) {
        if self.memory.state(self.slot).quarantine() {
            self.memory.count_quarantined();
        }
        // Without the drop that would release the slot, and with one count of the memory leaked
        // on purpose: whoever may still touch the slot must find it mapped.
        let _leaked = ManuallyDrop::new(self);
    }

    fn range(&self, at: usize, bytes: usize) -> NonNull<u8> {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.block_bytes()),
            "{bytes} bytes at {at} do not fit in a block of {} bytes",
            self.block_bytes()
        );
        // SAFETY: at <= block_bytes, so the result is inside the slot or one past its end.
        unsafe { self.base().add(at) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.state(self.slot).release(self.access);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("slot", &self.slot)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Arc<HostMemory> {
        HostMemory::allocate(16, 4).unwrap()
    }

    /// Any number of readers or one writer, and a refusal says which of them is in the way.
    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let memory = memory();
        let readers: Vec<_> = (0..100).map(|_| memory.lease(1, Access::Read).unwrap()).collect();
        assert_eq!(memory.lease(1, Access::Write).unwrap_err(), LeaseError::Read { slot: 1 });
        drop(readers);
        let writer = memory.lease(1, Access::Write).unwrap();
        assert_eq!(memory.lease(1, Access::Read).unwrap_err(), LeaseError::Written { slot: 1 });
        assert_eq!(memory.lease(1, Access::Write).unwrap_err(), LeaseError::Written { slot: 1 });
        assert_eq!(memory.leased_slots(), 1);
        drop(writer);
        assert_eq!(memory.leased_slots(), 0);
    }

    /// A slot that does not exist is refused with the range.
    #[test]
    fn a_slot_out_of_range_is_refused() {
        let error = memory().lease(4, Access::Read).unwrap_err();
        assert_eq!(error, LeaseError::OutOfRange { slot: 4, slots: 4 });
    }

    /// A quarantined slot is never leased again, even after other readers gave theirs back.
    #[test]
    fn quarantine_is_for_ever() {
        let memory = memory();
        let other = memory.lease(2, Access::Read).unwrap();
        memory.lease(2, Access::Read).unwrap().quarantine();
        drop(other);
        for access in [Access::Read, Access::Write] {
            assert_eq!(memory.lease(2, access).unwrap_err(), LeaseError::Quarantined { slot: 2 });
        }
        assert_eq!(memory.quarantined_slots(), 1);
        assert_eq!(Arc::strong_count(&memory), 2, "the quarantined lease keeps the memory mapped");
    }

    /// Bytes written at an offset come back from that offset, and the rest is untouched.
    #[test]
    fn copies_land_where_they_are_asked_to() {
        let memory = memory();
        let mut lease = memory.lease(0, Access::Write).unwrap();
        lease.copy_in(13, &[1, 2, 3]);
        let mut out = [9; 4];
        lease.copy_out(12, &mut out);
        assert_eq!(out, [0, 1, 2, 3]);
        lease.copy_in(16, &[]);
    }

    /// A copy past the block's end, or a write under a read lease, is a caller's bug and panics
    /// before a byte moves.
    #[test]
    fn copies_out_of_bounds_panic() {
        let panics = |work: fn(&Arc<HostMemory>)| {
            let memory = memory();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&memory)));
            assert!(result.is_err());
            assert_eq!(memory.leased_slots(), 0, "unwinding gave the lease back");
        };
        panics(|memory| memory.lease(0, Access::Write).unwrap().copy_in(14, &[0; 3]));
        panics(|memory| memory.lease(0, Access::Read).unwrap().copy_out(usize::MAX, &mut [0; 3]));
        panics(|memory| memory.lease(0, Access::Read).unwrap().copy_in(0, &[0; 3]));
    }
}

#[cfg(all(test, kvtier_loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Leases and uses the bytes of a slot, if it is free; says whether it was.
    fn use_slot(state: &SlotState, bytes: &UnsafeCell<u8>, access: Access) -> bool {
        if state.acquire(access).is_err() {
            return false;
        }
        match access {
            // SAFETY: what is tested; loom reports a race if it is not so.
            Access::Read => assert!(bytes.with(|bytes| unsafe { bytes.read() }) <= 1),
            // SAFETY: as above.
            Access::Write => bytes.with_mut(|bytes| unsafe { bytes.write(1) }),
        }
        state.release(access);
        true
    }

    fn race(accesses: [Access; 3]) {
        loom::model(move || {
            let shared = Arc::new((SlotState::default(), UnsafeCell::new(0)));
            let [first, second, own] = accesses;
            let threads = [first, second].map(|access| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || use_slot(&shared.0, &shared.1, access))
            });
            use_slot(&shared.0, &shared.1, own);
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(use_slot(&shared.0, &shared.1, Access::Write), "a lease was left");
        });
    }

    /// In every order of two readers and a writer, or two writers and a reader, no write meets another access, and
    /// each sees what the one before wrote.
    #[test]
    fn loom_leases_exclude_each_other() {
        race([Access::Read, Access::Write, Access::Read]);
        race([Access::Write, Access::Write, Access::Read]);
    }

    /// A slot that is quarantined while others come and go is never leased again.
    #[test]
    fn loom_quarantine_is_for_ever() {
        loom::model(|| {
            let state = Arc::new(SlotState::default());
            assert!(state.acquire(Access::Write).is_ok());
            let other = Arc::clone(&state);
            let reader = thread::spawn(move || other.acquire(Access::Read).is_ok());
            assert!(state.quarantine());
            assert!(!reader.join().unwrap(), "a slot in quarantine was leased");
            assert!(matches!(state.acquire(Access::Write), Err(Busy::Quarantined)));
        });
    }

    /// The check is alive: a release that does not order what was done before it is found.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_finds_a_release_without_order() {
        loom::model(|| {
            let shared = Arc::new((SlotState::default(), UnsafeCell::new(0_u8)));
            let other = Arc::clone(&shared);
            let writer = thread::spawn(move || {
                if other.0.acquire(Access::Write).is_ok() {
                    // SAFETY: exclusive by the lease; what follows is the planted defect.
                    other.1.with_mut(|bytes| unsafe { bytes.write(1) });
                    other.0.0.fetch_sub(WRITTEN, Ordering::Relaxed);
                }
            });
            use_slot(&shared.0, &shared.1, Access::Write);
            writer.join().unwrap();
        });
    }
}

//! Shared by the tests: the part of a tier that an engine sees.

mod close;
mod immediate;
mod manual;
mod schedule;

use std::sync::Arc;

use kvtier_core::{
    CompletionQueue, Direction, ErrorKind, HostMemory, ObjectKey, Presence, Probe, ProbeId, Transfer,
    TransferId,
};

use crate::MockStore;

const BLOCK_BYTES: usize = 8;

struct Fixture {
    store: MockStore,
    memory: Arc<HostMemory>,
    queue: Arc<CompletionQueue>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            store: MockStore::default(),
            memory: HostMemory::allocate(BLOCK_BYTES, 1024).unwrap(),
            queue: Arc::default(),
        }
    }

    /// A transfer of the slot with the number of its id, filled with that number if it is stored.
    fn transfer(&self, id: u32, direction: Direction, name: &str) -> Transfer {
        if direction == Direction::Store {
            let mut lease = self.memory.lease(id, Direction::Load.access()).unwrap();
            lease.copy_in(0, &block(id));
        }
        let lease = self.memory.lease(id, direction.access()).unwrap();
        Transfer::new(TransferId(id.into()), direction, key(name), lease, &self.queue)
    }

    fn store(&self, id: u32, name: &str) -> Transfer {
        self.transfer(id, Direction::Store, name)
    }

    fn load(&self, id: u32, name: &str) -> Transfer {
        self.transfer(id, Direction::Load, name)
    }

    fn probe(&self, id: u64, name: &str) -> Probe {
        Probe::new(ProbeId(id), key(name), &self.queue)
    }

    /// Bytes of a slot that nobody writes.
    fn slot(&self, slot: u32) -> Vec<u8> {
        self.memory.lease(slot, Direction::Store.access()).unwrap().to_vec()
    }

    /// Takes what became of the transfers so far, in the order they ended; gives their slots back.
    fn results(&self) -> Vec<(u64, Result<(), ErrorKind>)> {
        let done = self.queue.take().transfers.into_iter();
        done.map(|done| (done.id.0, done.result.map_err(|error| error.kind()))).collect()
    }

    /// Takes the answers so far, in the order they came.
    fn answers(&self) -> Vec<(u64, Result<Presence, ErrorKind>)> {
        let answers = self.queue.take().answers.into_iter();
        answers.map(|answer| (answer.id.0, answer.result.map_err(|error| error.kind()))).collect()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).unwrap()
}

fn block(id: u32) -> [u8; BLOCK_BYTES] {
    u64::from(id).to_le_bytes()
}

fn ids(ids: &[u64]) -> Vec<TransferId> {
    ids.iter().copied().map(TransferId).collect()
}

fn all_ok(ids: &[u64]) -> Vec<(u64, Result<(), ErrorKind>)> {
    ids.iter().map(|id| (*id, Ok(()))).collect()
}

fn present(bytes: u64) -> Presence {
    Presence::Present { size_bytes: Some(bytes) }
}

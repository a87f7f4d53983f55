//! An engine on a server, and the memory and queue of a test.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvtier_core::{
    Access, CompletionQueue, Direction, Error, HostMemory, ObjectKey, Presence, Probe, ProbeId, Transfer,
    TransferEngine, TransferId,
};
use kvtier_engine_nixl::{NixlEngine, StoreConfig};
use kvtier_testkit::S3Server;

/// No answer of a healthy server takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The options for a server, and more.
pub(crate) fn config(server: &S3Server, endpoint: &str, more: &[&str]) -> StoreConfig {
    let pairs = [
        format!("bucket={}", server.bucket()),
        format!("endpoint={endpoint}"),
        format!("access_key={}", server.access_key()),
        format!("secret_key={}", server.secret_key()),
        format!("region={}", server.region()),
    ];
    StoreConfig::from_pairs(pairs.iter().map(String::as_str).chain(more.iter().copied())).unwrap()
}

/// Both ways of holding blocks.
pub(crate) const MODES: [&str; 2] = ["zero_copy=false", "zero_copy=true"];

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).unwrap()
}

/// Bytes that differ from block to block and within a block.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

pub(crate) struct Rig {
    pub(crate) engine: NixlEngine,
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) queue: Arc<CompletionQueue>,
    next: u64,
}

impl Rig {
    pub(crate) fn new(config: &StoreConfig, block_bytes: usize, slots: u32) -> Self {
        let engine = NixlEngine::s3(config).unwrap();
        let memory = HostMemory::allocate(block_bytes, slots).unwrap();
        Self { engine, memory, queue: Arc::default(), next: 0 }
    }

    pub(crate) fn fill(&self, slot: u32, bytes: &[u8]) {
        self.memory.lease(slot, Access::Write).unwrap().copy_in(0, bytes);
    }

    pub(crate) fn read(&self, slot: u32) -> Vec<u8> {
        self.memory.lease(slot, Access::Read).unwrap().to_vec()
    }

    pub(crate) fn transfer(&mut self, direction: Direction, name: &str, slot: u32) -> Transfer {
        self.next += 1;
        let lease = self.memory.lease(slot, direction.access()).unwrap();
        Transfer::new(TransferId(self.next), direction, key(name), lease, &self.queue)
    }

    /// Starts moves of (name, slot) and says their numbers in order.
    pub(crate) fn start(&mut self, direction: Direction, blocks: &[(&str, u32)]) -> Vec<TransferId> {
        let batch: Vec<_> = blocks.iter().map(|(name, slot)| self.transfer(direction, name, *slot)).collect();
        let ids = batch.iter().map(Transfer::id).collect();
        self.engine.submit(batch);
        ids
    }

    /// Moves blocks and says how each ended, in order.
    pub(crate) async fn run(
        &mut self,
        direction: Direction,
        blocks: &[(&str, u32)],
    ) -> Vec<Result<(), Error>> {
        let ids = self.start(direction, blocks);
        let mut done = self.collect(ids.len()).await;
        ids.iter().map(|id| done.remove(id).unwrap()).collect()
    }

    /// The next `count` completions; each transfer completes once.
    pub(crate) async fn collect(&self, count: usize) -> HashMap<TransferId, Result<(), Error>> {
        let mut done = HashMap::new();
        while done.len() < count {
            tokio::time::timeout(PATIENCE, self.queue.posted()).await.expect("a transfer got lost");
            for completion in self.queue.take().transfers {
                assert!(done.insert(completion.id, completion.result).is_none(), "completed twice");
            }
        }
        done
    }

    pub(crate) async fn lookup(&self, names: &[&str]) -> Vec<Result<Presence, Error>> {
        let probe = |(id, name): (u64, &&str)| Probe::new(ProbeId(id), key(name), &self.queue);
        self.engine.lookup((0..).zip(names).map(probe).collect());
        let mut answers = HashMap::new();
        while answers.len() < names.len() {
            tokio::time::timeout(PATIENCE, self.queue.posted()).await.expect("a lookup got lost");
            for answer in self.queue.take().answers {
                assert!(answers.insert(answer.id, answer.result).is_none(), "answered twice");
            }
        }
        (0..names.len() as u64).map(|id| answers.remove(&ProbeId(id)).unwrap()).collect()
    }

    /// Closes, and says how long it took.
    pub(crate) async fn close(&self, patience: Duration) -> Duration {
        let start = Instant::now();
        self.engine.close(start + patience).await;
        start.elapsed()
    }
}

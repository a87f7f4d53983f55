//! What a test of an engine needs: memory, a queue, and one call per transfer or lookup.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kvtier_core::{
    Access, Completion, CompletionQueue, Direction, Error, HostMemory, ObjectKey, Presence, Probe, ProbeId,
    Transfer, TransferEngine, TransferId,
};
use kvtier_engine_object_store::{ConfigKey, ObjectStoreEngine, StoreConfig};
use tokio::runtime::Handle;

/// One engine with memory of `slots` blocks.
pub(crate) struct Bench {
    pub(crate) engine: ObjectStoreEngine,
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) queue: Arc<CompletionQueue>,
    next: AtomicU64,
}

impl Bench {
    pub(crate) fn new(engine: ObjectStoreEngine, block_bytes: usize, slots: u32) -> Self {
        let memory = HostMemory::allocate(block_bytes, slots).unwrap();
        Self { engine, memory, queue: Arc::default(), next: AtomicU64::new(0) }
    }

    /// An engine for a server that checks no signature.
    pub(crate) fn against(endpoint: &str, options: &[(ConfigKey, &str)], block_bytes: usize) -> Self {
        Self::new(engine(endpoint, options), block_bytes, 4)
    }

    /// A transfer of `slot` that the engine does not have yet.
    pub(crate) fn transfer(&self, direction: Direction, name: &str, slot: u32) -> Transfer {
        let lease = self.memory.lease(slot, direction.access()).unwrap();
        Transfer::new(TransferId(self.number()), direction, key(name), lease, &self.queue)
    }

    /// Does one transfer of slot 0 to its end. A deadline counts from now.
    pub(crate) async fn run(
        &self,
        direction: Direction,
        name: &str,
        deadline: Option<Duration>,
    ) -> Result<(), Error> {
        let deadline = deadline.map(|after| now() + after);
        self.engine.submit(vec![self.transfer(direction, name, 0).with_deadline(deadline)]);
        let completion = self.completion().await;
        assert!(completion.lease.is_some(), "a copying engine never keeps the slot");
        completion.result
    }

    pub(crate) async fn load(&self, name: &str) -> Result<(), Error> {
        self.run(Direction::Load, name, None).await
    }

    pub(crate) async fn store(&self, name: &str) -> Result<(), Error> {
        self.run(Direction::Store, name, None).await
    }

    /// The next completion.
    pub(crate) async fn completion(&self) -> Completion {
        loop {
            let mut posted = self.queue.take().transfers;
            assert!(posted.len() <= 1, "one at a time");
            if let Some(completion) = posted.pop() {
                return completion;
            }
            self.queue.posted().await;
        }
    }

    /// Asks for every name at once; answers in the order of the names.
    pub(crate) async fn lookup(&self, names: &[&str]) -> Vec<Result<Presence, Error>> {
        let first = self.next.fetch_add(u64::try_from(names.len()).unwrap(), Ordering::Relaxed);
        let probe = |(number, name): (u64, &&str)| Probe::new(ProbeId(number), key(name), &self.queue);
        self.engine.lookup((first..).zip(names).map(probe).collect());
        let mut answers = Vec::new();
        while answers.len() < names.len() {
            answers.extend(self.queue.take().answers);
            if answers.len() < names.len() {
                self.queue.posted().await;
            }
        }
        answers.sort_by_key(|answer| answer.id);
        answers.into_iter().map(|answer| answer.result).collect()
    }

    /// Fills a slot that nobody has leased.
    pub(crate) fn fill(&self, slot: u32, byte: u8) {
        let mut lease = self.memory.lease(slot, Access::Write).unwrap();
        lease.copy_in(0, &vec![byte; lease.block_bytes()]);
    }

    /// What is in a slot that nobody writes.
    pub(crate) fn bytes(&self, slot: u32) -> Vec<u8> {
        self.memory.lease(slot, Access::Read).unwrap().to_vec()
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).unwrap()
}

/// An S3 engine on the test's own runtime.
pub(crate) fn engine(endpoint: &str, options: &[(ConfigKey, &str)]) -> ObjectStoreEngine {
    let mut config = StoreConfig::default();
    for (key, value) in [
        (ConfigKey::Bucket, "kv"),
        (ConfigKey::AccessKey, "id"),
        (ConfigKey::SecretKey, "key"),
        (ConfigKey::EndpointOverride, endpoint),
    ]
    .iter()
    .chain(options)
    {
        config.set(*key, value).unwrap();
    }
    ObjectStoreEngine::s3(&config, Handle::current()).unwrap()
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into()
}

//! What the tests of kvtier share: a tier over a mock engine that does what it is told.
//!
//! Comments such as `vLLM's O9` name behaviours that vLLM's own tests of its tiers ask for: O of the object tier, A of
//! asynchronous lookups, F of the file system tier, T of tiering. What is not about a tier in Rust (events, Python, the GPU's side)
//! has none here.
//!
//! ```
//! use kvtier_tests::Fixture;
//!
//! let runtime = tokio::runtime::Runtime::new()?;
//! let fixture = Fixture::new(runtime.handle(), |_| {});
//! assert_eq!(fixture.tier.stats().running_jobs, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "engines")]
pub mod engines;
pub mod sim;

use std::sync::Arc;
use std::time::Duration;

use kvtier_core::{
    Access, Error, ErrorKind, HostMemory, JobReport, ObjectKey, OffloadKey, RetryPolicy, SecondaryTier,
    ShardedKeys, TierOptions,
};
use kvtier_engine_mock::{MockEngine, MockStore};
use tokio::runtime::Handle;

/// Bytes of a block in these tests.
pub const BLOCK_BYTES: usize = 64;
/// Slots of the memory in these tests.
pub const SLOTS: u32 = 16;
/// Transfers that the fixture's engine takes at a time.
pub const WINDOW: u32 = 4;
/// Longer than any wait that ends well; a test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A tier over a mock engine, with everything a test wants to look at.
#[derive(Debug)]
pub struct Fixture {
    /// The tier under test.
    pub tier: SecondaryTier<Arc<MockEngine>, ShardedKeys>,
    /// Its engine, which holds everything until told.
    pub engine: Arc<MockEngine>,
    /// The objects.
    pub store: MockStore,
    /// The primary tier's memory.
    pub memory: Arc<HostMemory>,
}

impl Fixture {
    /// A tier with a window of [`WINDOW`], retries 1 ms apart, and what `change` makes of the other options.
    ///
    /// # Panics
    /// If the tier cannot be made.
    pub fn new(runtime: &Handle, change: impl FnOnce(&mut TierOptions)) -> Self {
        let store = MockStore::default();
        let engine = MockEngine::manual(&store).with_capabilities(|capabilities| {
            capabilities.transfers_in_flight_max = WINDOW;
            capabilities.probes_in_flight_max = WINDOW;
        });
        Self::with_engine(engine, runtime, change)
    }

    /// The same over an engine of the test's own making.
    ///
    /// # Panics
    /// If the tier cannot be made.
    pub fn with_engine(engine: MockEngine, runtime: &Handle, change: impl FnOnce(&mut TierOptions)) -> Self {
        let (store, engine) = (engine.store().clone(), Arc::new(engine));
        let memory = expect(HostMemory::allocate(BLOCK_BYTES, SLOTS));
        let mapper = expect(ShardedKeys::new("kv"));
        let mut options = TierOptions::new(runtime.clone());
        options.retry = RetryPolicy {
            attempts_max: 3,
            backoff_first: Duration::from_millis(1),
            backoff_max: Duration::from_millis(1),
        };
        change(&mut options);
        let tier = expect(SecondaryTier::new(Arc::clone(&engine), mapper, Arc::clone(&memory), options));
        Self { tier, engine, store, memory }
    }

    /// The name of the object that holds block `n`.
    pub fn object(&self, n: u8) -> ObjectKey {
        use kvtier_core::KeyMapper as _;
        self.tier.mapper().object_key(&key(n))
    }

    /// Puts block `n` into the store.
    pub fn plant(&self, n: u8) {
        self.store.insert(self.object(n), vec![n; BLOCK_BYTES]);
    }

    /// Fills a slot with a byte.
    ///
    /// # Panics
    /// If the slot is taken.
    pub fn fill(&self, slot: u32, byte: u8) {
        expect(self.memory.lease(slot, Access::Write)).copy_in(0, &[byte; BLOCK_BYTES]);
    }

    /// The bytes of a slot.
    ///
    /// # Panics
    /// If the slot is taken for writing.
    pub fn bytes(&self, slot: u32) -> Vec<u8> {
        expect(self.memory.lease(slot, Access::Read)).to_vec()
    }

    /// Waits until nothing runs any more, and takes the reports.
    ///
    /// # Panics
    /// If that takes longer than [`PATIENCE`].
    pub fn reports(&self) -> Vec<JobReport> {
        expect(self.tier.drain(PATIENCE));
        self.tier.take_finished()
    }

    /// Performs what the engine holds, until the tier runs nothing any more, and takes the reports.
    ///
    /// # Panics
    /// If that takes longer than [`PATIENCE`].
    pub async fn run(&self) -> Vec<JobReport> {
        let run = async {
            while self.tier.stats().running_jobs > 0 {
                self.engine.complete_all();
                tokio::task::yield_now().await;
            }
        };
        expect(tokio::time::timeout(PATIENCE, run).await);
        self.tier.take_finished()
    }
}

/// The key of block `n`.
pub fn key(n: u8) -> OffloadKey {
    expect(OffloadKey::new(&[n; 32], 0))
}

/// The keys of these blocks.
pub fn keys(blocks: impl IntoIterator<Item = u8>) -> Vec<OffloadKey> {
    blocks.into_iter().map(key).collect()
}

/// An error that a test plants.
pub fn planted(kind: ErrorKind) -> Error {
    Error::new(kind, "planted")
}

fn expect<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the fixture failed: {error}"),
    }
}

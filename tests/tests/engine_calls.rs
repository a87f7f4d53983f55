//! What a tier asks of its engine, seen through a mock of the trait.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kvtier_core::{
    Capabilities, Error, ErrorKind, HostMemory, JobId, Probe, SecondaryTier, ShardedKeys, TierOptions,
    Transfer, TransferEngine,
};
use kvtier_tests::{BLOCK_BYTES, PATIENCE, SLOTS, keys, planted};
use mockall::mock;
use tokio::runtime::Handle;

mock! {
    #[derive(Debug)]
    Engine {}

    #[async_trait]
    impl TransferEngine for Engine {
        fn capabilities(&self) -> &Capabilities;
        async fn probe(&self) -> Result<(), Error>;
        fn lookup(&self, probes: Vec<Probe>);
        fn submit(&self, batch: Vec<Transfer>);
        async fn close(&self, deadline: Instant);
    }
}

fn engine(window: u32) -> MockEngine {
    let mut capabilities = Capabilities::new("mockall");
    capabilities.transfers_in_flight_max = window;
    let mut engine = MockEngine::new();
    engine.expect_capabilities().return_const(capabilities);
    engine
}

fn tier(
    engine: MockEngine,
    change: impl FnOnce(&mut TierOptions),
) -> SecondaryTier<Box<dyn TransferEngine>, ShardedKeys> {
    let mut options = TierOptions::new(Handle::current());
    change(&mut options);
    let memory = HostMemory::allocate(BLOCK_BYTES, SLOTS).unwrap();
    let engine: Box<dyn TransferEngine> = Box::new(engine);
    SecondaryTier::new(engine, ShardedKeys::new("kv").unwrap(), memory, options).unwrap()
}

/// Making a tier does no I/O; a probe is one call, and its error comes through as it is.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_probe_probes() {
    let mut engine = engine(1);
    engine.expect_probe().times(1).returning(|| Err(planted(ErrorKind::Denied)));
    engine.expect_close().return_const(());
    let tier = tier(engine, |_| {});
    assert_eq!(tier.probe().await.unwrap_err().kind(), ErrorKind::Denied);
}

/// Blocks come in the caller's order, in batches that never exceed the smaller of the two windows, each with the
/// deadline that the options ask for.
#[tokio::test(flavor = "multi_thread")]
async fn batches_keep_order_window_and_deadline() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut engine = engine(8);
    engine.expect_submit().returning({
        let seen = Arc::clone(&seen);
        move |batch| {
            assert!(batch.len() <= 3, "{} transfers at once", batch.len());
            for transfer in batch {
                seen.lock().unwrap().push((transfer.key().clone(), transfer.deadline()));
                transfer.complete(Ok(()));
            }
        }
    });
    engine.expect_close().return_const(());
    let tier = tier(engine, |options| {
        options.transfers_in_flight_max = 3;
        options.transfer_timeout = Some(Duration::from_secs(5));
    });
    let slots: Vec<_> = (0..10).collect();
    tier.submit_store(JobId(1), keys(0..10), &slots).unwrap();
    tier.drain(PATIENCE).unwrap();
    let seen = seen.lock().unwrap();
    let mapper = ShardedKeys::new("kv").unwrap();
    let expected: Vec<_> =
        keys(0..10).iter().map(|key| kvtier_core::KeyMapper::object_key(&mapper, key)).collect();
    assert_eq!(seen.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), expected);
    assert!(seen.iter().all(|(_, deadline)| deadline.is_some()));
}

/// A shutdown closes the engine, and so does a drop.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_is_closed() {
    let mut engine = engine(1);
    engine.expect_close().times(1..=2).return_const(());
    let tier = tier(engine, |_| {});
    tier.shutdown(PATIENCE).unwrap();
    drop(tier);
}

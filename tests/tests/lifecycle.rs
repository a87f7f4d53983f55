//! How tiers end: drain, shutdown, drop, and a runtime that goes away.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use kvtier_core::{
    ErrorKind, HostMemory, JobId, KeyMapper, Leftover, ObjectKey, OffloadKey, Outcome, RequestId,
    SecondaryTier, ShardedKeys, SubmitError, TierOptions, Verdict,
};
use kvtier_engine_mock::{MockEngine, MockStore, TransferEnd};
use kvtier_tests::{BLOCK_BYTES, Fixture, PATIENCE, SLOTS, WINDOW, key, keys, planted};
use tokio::runtime::{Builder, Handle, Runtime};

/// Too short for anything that a test holds back, and over at once.
const NO_TIME: Duration = Duration::from_millis(20);

/// A tier whose engine holds four of six blocks; the other two are queued.
async fn busy() -> Fixture {
    let fixture = Fixture::new(&Handle::current(), |_| {});
    fill(&fixture).await;
    fixture
}

async fn fill(fixture: &Fixture) {
    fixture.tier.submit_store(JobId(1), keys(0..6), &[0, 1, 2, 3, 4, 5]).unwrap();
    fixture.engine.wait_for_transfers(WINDOW as usize).await;
}

fn cancelled(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Cancelled)).count()
}

/// A drain gives up at its deadline and says what is left; it cancels nothing, and the report comes all the same.
// vLLM's O9.
#[tokio::test(flavor = "multi_thread")]
async fn drain_says_what_is_left() {
    let fixture = busy().await;
    let left = fixture.tier.drain(NO_TIME).unwrap_err();
    let expected = Leftover { running_jobs: 1, queued_blocks: 2, in_flight_blocks: 4, engine_closing: false };
    assert_eq!(left, expected);
    assert_eq!(left.to_string(), "1 jobs are still running: 2 blocks queued, 4 in flight");
    let reports = fixture.run().await;
    assert!(reports[0].is_success());
    fixture.tier.drain(NO_TIME).unwrap();
}

/// A shutdown cancels what is queued and waits for what is in flight; the reports are still there after it.
// vLLM's O15, F14.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_what_is_in_flight() {
    let fixture = Arc::new(busy().await);
    let shutdown = tokio::task::spawn_blocking({
        let fixture = Arc::clone(&fixture);
        move || fixture.tier.shutdown(PATIENCE)
    });
    while fixture.tier.stats().queued_blocks > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.memory.leased_slots(), 4);
    assert!(!shutdown.is_finished(), "blocks are in flight");
    fixture.engine.complete_all();
    shutdown.await.unwrap().unwrap();
    assert_eq!(fixture.memory.leased_slots(), 0);
    let report = fixture.tier.take_finished().remove(0);
    assert_eq!(cancelled(&report.outcomes), 2);
    assert_eq!(report.bytes, 256);
}

/// An engine that honours deadlines ends what is in flight at the shutdown's deadline, so that nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_at_the_deadline_if_the_engine_can() {
    let fixture = busy().await;
    fixture.tier.shutdown(Duration::from_millis(500)).unwrap();
    assert_eq!(fixture.memory.leased_slots(), 0);
}

/// A shutdown that cannot end says what is left, any number of times, and is over once the engine is done.
// vLLM's O16.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_is_idempotent_and_says_what_is_left() {
    let engine = MockEngine::manual(&MockStore::default()).with_capabilities(|capabilities| {
        capabilities.transfers_in_flight_max = WINDOW;
        capabilities.honours_deadline = false;
    });
    let fixture = Fixture::with_engine(engine, &Handle::current(), |_| {});
    fill(&fixture).await;
    for _ in 0..2 {
        let left = fixture.tier.shutdown(NO_TIME).unwrap_err();
        assert_eq!((left.running_jobs, left.queued_blocks, left.in_flight_blocks), (1, 0, 4));
        assert_eq!(fixture.memory.leased_slots(), 4, "what is in flight keeps its slot");
    }
    fixture.engine.complete_all();
    for _ in 0..2 {
        fixture.tier.shutdown(PATIENCE).unwrap();
    }
    assert_eq!(fixture.tier.take_finished().len(), 1);
}

/// Nothing pends after a shutdown: what is known stays known, everything else is a miss.
// vLLM's A15.
#[tokio::test(flavor = "multi_thread")]
async fn lookups_end_with_the_tier() {
    let fixture = Fixture::new(&Handle::current(), |_| {});
    let request = RequestId(1);
    assert_eq!(fixture.tier.lookup(request, &key(1)), Verdict::Pending);
    fixture.tier.end_step();
    fixture.engine.wait_for_probes(1).await;
    let closed = Arc::new(fixture);
    let shutdown = tokio::task::spawn_blocking({
        let fixture = Arc::clone(&closed);
        move || fixture.tier.shutdown(PATIENCE)
    });
    while closed.tier.lookup(request, &key(1)) == Verdict::Pending {
        tokio::task::yield_now().await;
    }
    assert_eq!(closed.tier.lookup(request, &key(1)), Verdict::Miss);
    assert_eq!(closed.tier.lookup(request, &key(2)), Verdict::Miss);
    closed.engine.answer_all();
    shutdown.await.unwrap().unwrap();
}

/// Dropping a tier returns at once: queued blocks give their slots back, and those in flight keep theirs, and the memory
/// alive, until they end.
#[tokio::test(flavor = "multi_thread")]
async fn drop_does_not_wait() {
    let Fixture { tier, engine, memory, .. } = busy().await;
    drop(tier);
    assert_eq!(memory.leased_slots(), 4);
    let weak = Arc::downgrade(&memory);
    drop(memory);
    assert!(weak.upgrade().is_some(), "blocks in flight keep the memory");
    engine.complete_all();
    while weak.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Without its runtime a tier answers `Closed` and `Miss`, reports what was queued as cancelled, and what is in flight when
/// the engine is done with it: nothing waits for ever.
#[test]
fn a_dead_runtime_closes_the_tier() {
    let runtime = two_threads();
    let fixture = Fixture::new(runtime.handle(), |_| {});
    runtime.block_on(fill(&fixture));
    fixture.tier.submit_store(JobId(2), keys([9]), &[9]).unwrap();
    assert_eq!(fixture.tier.lookup(RequestId(1), &key(1)), Verdict::Pending);
    drop(runtime);

    assert_eq!(fixture.tier.submit_store(JobId(3), keys([9]), &[10]), Err(SubmitError::Closed));
    assert_eq!(fixture.tier.lookup(RequestId(1), &key(1)), Verdict::Miss);
    let reports = fixture.tier.take_finished();
    assert_eq!(reports.iter().map(|report| report.id).collect::<Vec<_>>(), [Some(JobId(2))]);
    assert_eq!(cancelled(&reports[0].outcomes), 1);

    assert!(fixture.tier.has_pending_work());
    assert_eq!(fixture.tier.drain(NO_TIME).unwrap_err().in_flight_blocks, 4);
    fixture.engine.complete_all();
    fixture.tier.drain(PATIENCE).unwrap();
    let reports = fixture.tier.take_finished();
    assert_eq!(cancelled(&reports[0].outcomes), 2);
    assert_eq!(fixture.memory.leased_slots(), 0);
    fixture.tier.shutdown(PATIENCE).unwrap();
}

/// The whole life of a tier from a thread that is in no runtime.
#[test]
fn a_tier_works_from_outside_its_runtime() {
    let runtime = two_threads();
    let fixture =
        Fixture::with_engine(MockEngine::immediate(&MockStore::default()), runtime.handle(), |_| {});
    fixture.fill(0, 7);
    fixture.tier.submit_store(JobId(1), keys([1]), &[0]).unwrap();
    fixture.tier.drain(PATIENCE).unwrap();
    fixture.tier.submit_load(JobId(2), keys([1]), &[1]).unwrap();
    fixture.tier.drain(PATIENCE).unwrap();
    assert!(fixture.tier.take_finished().iter().all(kvtier_core::JobReport::is_success));
    assert_eq!(fixture.bytes(1), fixture.bytes(0));
    fixture.tier.shutdown(Duration::MAX).unwrap();
}

/// A tier whose runtime was gone before the tier was made is closed from the start.
#[test]
fn a_runtime_that_is_dead_already_closes_the_tier() {
    let runtime = two_threads();
    let handle = runtime.handle().clone();
    drop(runtime);
    let fixture = Fixture::new(&handle, |_| {});
    assert_eq!(fixture.tier.submit_store(JobId(1), keys([1]), &[0]), Err(SubmitError::Closed));
    assert_eq!(fixture.tier.lookup(RequestId(1), &key(1)), Verdict::Miss);
    fixture.tier.drain(PATIENCE).unwrap();
    fixture.tier.shutdown(PATIENCE).unwrap();
}

/// A task on another runtime that awaits a job gets its report although the tier's runtime is gone.
#[test]
fn a_task_outlives_the_tiers_runtime() {
    let (of_tier, of_task) = (two_threads(), two_threads());
    let fixture = Arc::new(Fixture::new(of_tier.handle(), |_| {}));
    let task = of_task.spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.tier.store(keys([1]), &[0]).await }
    });
    of_task.block_on(fixture.engine.wait_for_transfers(1));
    drop(of_tier);
    fixture.engine.complete_all();
    assert!(of_task.block_on(task).unwrap().unwrap().is_success());
}

/// A task may block its worker thread in `drain` and `shutdown`, right after it submitted: the driver moves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_thread_can_wait() {
    let fixture =
        Fixture::with_engine(MockEngine::immediate(&MockStore::default()), &Handle::current(), |_| {});
    let task = tokio::spawn(async move {
        fixture.tier.submit_store(JobId(1), keys([1]), &[0]).unwrap();
        fixture.tier.drain(PATIENCE).unwrap();
        fixture.tier.shutdown(PATIENCE).unwrap();
    });
    task.await.unwrap();
}

/// A cancel ends a drain that waits for the cancelled job alone, though nothing else happens.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_a_drain() {
    let fixture = Arc::new(Fixture::new(&Handle::current(), |options| {
        options.retry.backoff_first = Duration::from_hours(1);
        options.retry.backoff_max = Duration::from_hours(1);
    }));
    fixture.tier.submit_load(JobId(1), keys([1]), &[0]).unwrap();
    fixture.engine.wait_for_transfers(1).await;
    let id = fixture.engine.pending_transfers()[0].id;
    fixture.engine.complete(id, TransferEnd::Fail(planted(ErrorKind::Timeout)));
    while fixture.tier.stats().retries == 0 {
        tokio::task::yield_now().await;
    }
    let drain = tokio::task::spawn_blocking({
        let fixture = Arc::clone(&fixture);
        move || fixture.tier.drain(PATIENCE)
    });
    assert!(fixture.tier.cancel(JobId(1)));
    drain.await.unwrap().unwrap();
}

/// A mapper that breaks its contract for one block.
#[derive(Debug)]
struct PanicsAt(ShardedKeys, u8);

impl KeyMapper for PanicsAt {
    fn object_key(&self, key: &OffloadKey) -> ObjectKey {
        assert_ne!(key.hash()[0], self.1, "planted");
        self.0.object_key(key)
    }
    fn offload_key(&self, key: &ObjectKey) -> Option<OffloadKey> {
        self.0.offload_key(key)
    }
}

/// A panic in a mapper closes the tier; no block is lost and no slot kept: the job is reported as failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_on_the_way_loses_no_block() {
    let (engine, mapper) =
        (MockEngine::immediate(&MockStore::default()), PanicsAt(ShardedKeys::new("kv").unwrap(), 1));
    let memory = HostMemory::allocate(BLOCK_BYTES, SLOTS).unwrap();
    let tier =
        SecondaryTier::new(engine, mapper, Arc::clone(&memory), TierOptions::new(Handle::current())).unwrap();
    tier.submit_store(JobId(1), keys(0..3), &[0, 1, 2]).unwrap();
    tier.drain(PATIENCE).unwrap();
    let report = tier.take_finished().remove(0);
    let is_closed =
        |outcome: &Outcome| matches!(outcome, Outcome::Failed(error) if error.kind() == ErrorKind::Closed);
    assert!(report.outcomes.iter().all(is_closed), "{report:?}");
    assert_eq!(memory.leased_slots(), 0);
    assert_eq!(tier.submit_store(JobId(2), keys([5]), &[0]), Err(SubmitError::Closed));
}

//! Jobs through both doors: bytes, order, window, retries, cancels.

use std::sync::Arc;

use kvtier_core::{ErrorKind, JobId, Outcome, TransferId};
use kvtier_engine_mock::TransferEnd;
use kvtier_tests::{BLOCK_BYTES, Fixture, PATIENCE, SLOTS, WINDOW, key, keys, planted};
use tokio::runtime::Handle;

fn fixture() -> Fixture {
    Fixture::new(&Handle::current(), |_| {})
}

/// Blocks stored by number come back, byte for byte, into other slots, and each job is reported once with its own number.
// vLLM's O3, O4, O5, O8.
#[tokio::test(flavor = "multi_thread")]
async fn stored_blocks_come_back_by_number() {
    let fixture = fixture();
    for slot in 0..8 {
        fixture.fill(slot, u8::try_from(slot).unwrap() + 100);
    }
    fixture.tier.submit_store(JobId(1), keys(0..3), &[0, 1, 2]).unwrap();
    fixture.tier.submit_store(JobId(2), keys(3..8), &[3, 4, 5, 6, 7]).unwrap();
    let mut reports = fixture.run().await;
    reports.sort_by_key(|report| report.id);
    assert_eq!(reports.iter().map(|report| report.id.unwrap().0).collect::<Vec<_>>(), [1, 2]);
    assert!(reports.iter().all(kvtier_core::JobReport::is_success));
    assert_eq!(reports[1].bytes, 5 * BLOCK_BYTES as u64);

    fixture.tier.submit_load(JobId(3), keys((0..8).rev()), &[8, 9, 10, 11, 12, 13, 14, 15]).unwrap();
    assert!(fixture.run().await[0].is_success());
    for slot in 8..16 {
        assert_eq!(fixture.bytes(slot), [115 - u8::try_from(slot).unwrap(); BLOCK_BYTES]);
    }
    assert!(fixture.tier.take_finished().is_empty());
    assert!(!fixture.tier.has_pending_work());
}

/// The same for a task that awaits its jobs; its reports do not appear among the numbered ones.
#[tokio::test(flavor = "multi_thread")]
async fn stored_blocks_come_back_to_a_task() {
    let fixture = Arc::new(fixture());
    fixture.fill(0, 42);
    let task = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move {
            let stored = fixture.tier.store(keys([1]), &[0]).await.unwrap();
            let loaded = fixture.tier.load(keys([1]), &[1]).await.unwrap();
            (stored, loaded)
        }
    });
    for _ in 0..2 {
        fixture.engine.wait_for_transfers(1).await;
        assert!(fixture.engine.complete_next().is_some());
    }
    let (stored, loaded) = task.await.unwrap();
    assert!(stored.is_success() && loaded.is_success());
    assert_eq!((stored.id, loaded.id), (None, None));
    assert_eq!(fixture.bytes(1), [42; BLOCK_BYTES]);
    assert!(fixture.tier.take_finished().is_empty());
}

/// An empty job succeeds, through both doors, without troubling the engine.
// vLLM's F4.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_job_succeeds() {
    let fixture = fixture();
    fixture.tier.submit_load(JobId(1), vec![], &[]).unwrap();
    let reports = fixture.tier.take_finished();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].is_success());
    assert!(fixture.tier.store(vec![], &[]).await.unwrap().is_success());
    assert!(fixture.engine.pending_transfers().is_empty());
}

/// One block's failure is its own: the others are done, and outcomes stand in the caller's order although the
/// engine completed them backwards.
// vLLM's O7, O12, F7, F8, T3.
#[tokio::test(flavor = "multi_thread")]
async fn each_block_has_its_own_outcome() {
    let fixture = fixture();
    fixture.plant(1);
    fixture.plant(3);
    fixture.store.insert(fixture.object(4), vec![4; BLOCK_BYTES - 1]);
    fixture.tier.submit_load(JobId(1), keys(1..5), &[1, 2, 3, 4]).unwrap();
    fixture.engine.wait_for_transfers(4).await;
    let backwards: Vec<_> =
        fixture.engine.pending_transfers().iter().rev().map(|transfer| transfer.id).collect();
    fixture.engine.complete_in_order(&backwards);
    let report = fixture.reports().remove(0);
    let kinds: Vec<_> = report
        .outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Failed(error) => Some(error.kind()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [None, Some(ErrorKind::NotFound), None, Some(ErrorKind::Corrupt)]);
    assert_eq!(report.keys, keys(1..5));
    assert_eq!(report.bytes, 2 * BLOCK_BYTES as u64);
    assert_eq!(fixture.bytes(3), [3; BLOCK_BYTES]);
    assert_eq!(fixture.memory.leased_slots(), 0);
}

/// The engine never holds more than its window; the driver refills it without anybody polling, and the slots stay leased
/// until the report.
#[tokio::test(flavor = "multi_thread")]
async fn the_window_is_kept_and_refilled() {
    let fixture = fixture();
    let slots: Vec<_> = (0..SLOTS).collect();
    fixture.tier.submit_store(JobId(1), keys(0..16), &slots).unwrap();
    for done in 0..u32::from(16_u8) {
        let left = (SLOTS - done).min(WINDOW) as usize;
        fixture.engine.wait_for_transfers(left).await;
        assert_eq!(fixture.engine.pending_transfers().len(), left);
        assert_eq!(fixture.engine.complete_next(), Some(TransferId(done.into())));
    }
    assert!(fixture.reports()[0].is_success());
}

/// A temporary failure is tried again as a new transfer, and the block succeeds; the job is reported once.
#[tokio::test(flavor = "multi_thread")]
async fn temporary_failures_are_retried() {
    let fixture = fixture();
    fixture.plant(1);
    fixture.tier.submit_load(JobId(1), keys([1]), &[0]).unwrap();
    for kind in [ErrorKind::Throttled, ErrorKind::Timeout] {
        fixture.engine.wait_for_transfers(1).await;
        let id = fixture.engine.pending_transfers()[0].id;
        fixture.engine.complete(id, TransferEnd::Fail(planted(kind)));
    }
    fixture.engine.wait_for_transfers(1).await;
    assert_eq!(fixture.engine.complete_next(), Some(TransferId(2)));
    assert!(fixture.reports()[0].is_success());
    assert_eq!(fixture.tier.stats().retries, 2);
    assert_eq!(fixture.bytes(0), [1; BLOCK_BYTES]);
}

/// A transfer that the engine drops is a failed block, not a hung job, and its slot is free again.
// vLLM's O11.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_transfer_fails_its_block() {
    let fixture = fixture();
    fixture.tier.submit_load(JobId(1), keys([1]), &[0]).unwrap();
    fixture.engine.wait_for_transfers(1).await;
    fixture.engine.complete(fixture.engine.pending_transfers()[0].id, TransferEnd::Drop);
    let report = fixture.reports().remove(0);
    assert!(matches!(&report.outcomes[0], Outcome::Failed(error) if error.kind() == ErrorKind::Closed));
    assert_eq!(fixture.memory.leased_slots(), 0);
}

/// A cancel ends what is queued; what is in flight ends as the engine says, and only then is the job reported.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_what_is_queued() {
    let fixture = fixture();
    fixture.tier.submit_store(JobId(1), keys(0..6), &[0, 1, 2, 3, 4, 5]).unwrap();
    fixture.engine.wait_for_transfers(4).await;
    assert!(fixture.tier.cancel(JobId(1)));
    assert!(!fixture.tier.cancel(JobId(2)));
    assert!(fixture.tier.take_finished().is_empty());
    assert_eq!(fixture.memory.leased_slots(), 4, "queued blocks gave their slots back");
    fixture.engine.complete_all();
    let report = fixture.reports().remove(0);
    let cancelled = report.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Cancelled)).count();
    assert_eq!((cancelled, report.outcomes.len()), (2, 6));
    assert!(!fixture.tier.cancel(JobId(1)), "a finished job cannot be cancelled");
}

/// A task that stops waiting cancels what is queued; what is in flight ends in the background and frees its slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_cancels_its_job() {
    let fixture = fixture();
    let mut store = Box::pin(fixture.tier.store(keys(0..6), &[0, 1, 2, 3, 4, 5]));
    tokio::select! {
        _ = &mut store => unreachable!("nothing completes"),
        () = fixture.engine.wait_for_transfers(4) => {}
    }
    drop(store);
    assert_eq!(fixture.tier.stats().queued_blocks, 0);
    assert_eq!(fixture.memory.leased_slots(), 4);
    fixture.engine.complete_all();
    fixture.tier.drain(PATIENCE).unwrap();
    assert_eq!(fixture.memory.leased_slots(), 0);
    assert!(fixture.tier.take_finished().is_empty());
}

/// Loads overtake stores that are still queued.
// vLLM's F15.
#[tokio::test(flavor = "multi_thread")]
async fn loads_overtake_queued_stores() {
    let fixture = fixture();
    fixture.plant(9);
    fixture.tier.submit_store(JobId(1), keys(0..6), &[0, 1, 2, 3, 4, 5]).unwrap();
    fixture.engine.wait_for_transfers(4).await;
    fixture.tier.submit_load(JobId(2), keys([9]), &[9]).unwrap();
    fixture.engine.complete_next();
    fixture.engine.wait_for_transfers(4).await;
    assert_eq!(fixture.engine.pending_transfers()[3].key, fixture.object(9));
    assert_eq!(key(9), keys([9])[0]);
}

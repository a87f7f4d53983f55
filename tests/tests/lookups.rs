//! Lookups through both doors.

use std::sync::Arc;

use kvtier_core::{ErrorKind, JobId, Presence, RequestId, Verdict};
use kvtier_engine_mock::ProbeEnd;
use kvtier_tests::{BLOCK_BYTES, Fixture, WINDOW, key, keys, planted};
use tokio::runtime::Handle;

const A: RequestId = RequestId(1);

fn fixture() -> Fixture {
    Fixture::new(&Handle::current(), |_| {})
}

/// Asks until the answer is known.
async fn settled(fixture: &Fixture, n: u8) -> Verdict {
    loop {
        match fixture.tier.lookup(A, &key(n)) {
            Verdict::Pending => tokio::task::yield_now().await,
            known => return known,
        }
    }
}

/// Nothing is asked before the step ends; then every key has its own answer as soon as it is known, in any order.
// vLLM's O6, A1, A3, A6.
#[tokio::test(flavor = "multi_thread")]
async fn answers_come_per_key_after_the_step() {
    let fixture = fixture();
    fixture.plant(1);
    for n in [1, 2, 3] {
        assert_eq!(fixture.tier.lookup(A, &key(n)), Verdict::Pending);
    }
    assert!(fixture.engine.pending_probes().is_empty());
    fixture.tier.end_step();
    fixture.engine.wait_for_probes(3).await;
    assert_eq!(fixture.engine.pending_probes(), [fixture.object(1), fixture.object(2), fixture.object(3)]);
    fixture.engine.answer(&fixture.object(3), ProbeEnd::Fail(planted(ErrorKind::Denied)));
    assert_eq!(settled(&fixture, 3).await, Verdict::Miss, "an error answers miss");
    assert_eq!(fixture.tier.lookup(A, &key(1)), Verdict::Pending, "and spoils no other answer");
    fixture.engine.answer_all();
    assert_eq!(settled(&fixture, 1).await, Verdict::Hit);
    assert_eq!(settled(&fixture, 2).await, Verdict::Miss);
    assert_eq!(fixture.tier.stats().lookups.failed, 1);
    fixture.tier.finish_request(A);
    assert_eq!(fixture.tier.stats().lookups.entries, 0);
}

/// A failed load turns the hit of its own key, and of no other, into a miss; whoever sees the report sees that, too.
// vLLM's O17, O19.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_load_ends_the_hit() {
    let fixture = fixture();
    fixture.plant(1);
    fixture.plant(2);
    for n in [1, 2] {
        fixture.tier.lookup(A, &key(n));
    }
    fixture.tier.end_step();
    fixture.engine.wait_for_probes(2).await;
    fixture.engine.answer_all();
    assert_eq!(settled(&fixture, 1).await, Verdict::Hit);
    fixture.store.remove(&fixture.object(1));
    fixture.tier.submit_load(JobId(1), keys([1, 2]), &[0, 1]).unwrap();
    assert!(!fixture.run().await[0].is_success());
    assert_eq!(fixture.tier.lookup(A, &key(1)), Verdict::Miss);
    assert_eq!(fixture.tier.lookup(A, &key(2)), Verdict::Hit);
    fixture.tier.end_step();
    assert!(fixture.engine.pending_probes().is_empty(), "no second probe for the same request");
}

/// A finished store turns a miss into a hit without a probe.
// vLLM's A16.
#[tokio::test(flavor = "multi_thread")]
async fn a_finished_store_is_a_hit() {
    let fixture = fixture();
    fixture.tier.lookup(A, &key(1));
    fixture.tier.end_step();
    fixture.engine.wait_for_probes(1).await;
    fixture.engine.answer_all();
    assert_eq!(settled(&fixture, 1).await, Verdict::Miss);
    fixture.tier.submit_store(JobId(1), keys([1]), &[0]).unwrap();
    fixture.run().await;
    assert_eq!(fixture.tier.lookup(A, &key(1)), Verdict::Hit);
}

/// `contains` answers in the order given, each key with its own answer, within the engine's window.
// vLLM's O6.
#[tokio::test(flavor = "multi_thread")]
async fn contains_answers_in_order_within_the_window() {
    let fixture = Arc::new(fixture());
    for n in 0..4 {
        fixture.plant(n * 2);
    }
    let asked = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.tier.contains(&keys(0..8)).await }
    });
    fixture.engine.wait_for_probes(4).await;
    assert_eq!(fixture.engine.pending_probes().len(), WINDOW as usize);
    fixture.engine.answer(&fixture.object(3), ProbeEnd::Fail(planted(ErrorKind::Timeout)));
    fixture.engine.answer(&fixture.object(2), ProbeEnd::Drop);
    while !asked.is_finished() {
        assert!(fixture.engine.pending_probes().len() <= WINDOW as usize);
        fixture.engine.answer_all();
        tokio::task::yield_now().await;
    }
    let answers = asked.await.unwrap();
    let present = Presence::Present { size_bytes: Some(BLOCK_BYTES as u64) };
    for (n, answer) in answers.iter().enumerate() {
        match (n, answer) {
            (2, Err(error)) => assert_eq!(error.kind(), ErrorKind::Closed),
            (3, Err(error)) => assert_eq!(error.kind(), ErrorKind::Timeout),
            (_, Ok(presence)) => assert_eq!(*presence, if n % 2 == 0 { present } else { Presence::Absent }),
            (_, Err(error)) => panic!("key {n}: {error}"),
        }
    }
    assert!(fixture.tier.contains(&[]).await.is_empty());
}

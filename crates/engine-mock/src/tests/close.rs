use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kvtier_core::{ErrorKind, TransferEngine, TransferId};
use tokio::time::Instant;

use super::Fixture;
use crate::{MockEngine, TransferEnd};

const WHILE: Duration = Duration::from_mins(1);

fn soon() -> std::time::Instant {
    (Instant::now() + WHILE).into_std()
}

/// After the call everything new ends as closed, in every mode, while what is held still ends as told.
#[tokio::test(start_paused = true)]
async fn close_stops_intake_and_waits() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    let begun = Instant::now();
    engine.submit(vec![fixture.store(0, "a")]);
    engine.lookup(vec![fixture.probe(0, "a")]);
    {
        let mut close = pin!(engine.close(soon()));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(close.as_mut().poll(&mut context), Poll::Pending);
        engine.submit(vec![fixture.store(1, "b")]);
        assert_eq!(fixture.results(), [(1, Err(ErrorKind::Closed))]);
        engine.lookup(vec![fixture.probe(1, "b")]);
        assert_eq!(fixture.answers(), [(1, Err(ErrorKind::Closed))]);
        engine.complete(TransferId(0), TransferEnd::Perform);
        assert_eq!(close.as_mut().poll(&mut context), Poll::Pending, "a probe is still held");
        engine.answer_all();
        close.await;
    }
    assert_eq!(fixture.results(), [(0, Ok(()))]);
    engine.close(soon()).await;
    assert_eq!(engine.probe().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(Instant::now(), begun, "no clock was waited for");
}

/// An immediate engine holds nothing: it closes at once, and refuses from then on.
#[tokio::test(start_paused = true)]
async fn an_immediate_engine_closes_at_once() {
    let fixture = Fixture::new();
    let engine = MockEngine::immediate(&fixture.store);
    assert!(engine.probe().await.is_ok());
    engine.submit(vec![fixture.store(0, "a")]);
    engine.close(Instant::now().into_std()).await;
    engine.submit(vec![fixture.load(1, "a")]);
    assert_eq!(fixture.results(), [(0, Ok(())), (1, Err(ErrorKind::Closed))]);
}

/// At the deadline, and not before, what is held ends with a timeout.
#[tokio::test(start_paused = true)]
async fn what_is_held_times_out_at_the_deadline() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(0, "a"), fixture.load(1, "b")]);
    engine.lookup(vec![fixture.probe(0, "a")]);
    let begun = Instant::now();
    engine.close(soon()).await;
    assert!(begun.elapsed() >= WHILE);
    let done = fixture.queue.take();
    let kinds = done.transfers.iter().map(|done| done.result.as_ref().unwrap_err().kind());
    let kinds: Vec<_> =
        kinds.chain(done.answers.iter().map(|a| a.result.as_ref().unwrap_err().kind())).collect();
    assert_eq!(kinds, [ErrorKind::Timeout; 3]);
    assert!(engine.pending_transfers().is_empty() && engine.pending_probes().is_empty());
}

/// An engine that cannot abandon a transfer leaves it in flight at the deadline; it still ends as told.
#[tokio::test(start_paused = true)]
async fn an_engine_that_ignores_deadlines_keeps_what_it_holds() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store)
        .with_capabilities(|capabilities| capabilities.honours_deadline = false);
    engine.submit(vec![fixture.store(0, "a")]);
    engine.close(soon()).await;
    assert_eq!(fixture.results(), []);
    engine.complete(TransferId(0), TransferEnd::Perform);
    assert_eq!(fixture.results(), [(0, Ok(()))]);
}

/// An engine dropped with work in hand loses none of it: each ends once, closed, and its slot is free.
#[test]
fn dropping_the_engine_closes_what_it_holds() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(0, "a"), fixture.load(1, "b")]);
    engine.lookup(vec![fixture.probe(9, "a")]);
    drop(engine);
    let done = fixture.queue.take();
    assert_eq!(done.answers[0].result.as_ref().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((done.transfers.len(), done.answers.len()), (2, 1));
    assert!(done.transfers.iter().all(|done| done.result.as_ref().unwrap_err().kind() == ErrorKind::Closed));
    drop(done);
    assert_eq!((fixture.memory.leased_slots(), fixture.memory.quarantined_slots()), (0, 0));
}

/// Closes the engine from inside a completion, as another thread may at that moment.
struct Closer {
    engine: MockEngine,
    waited: AtomicBool,
}

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        let close = pin!(self.engine.close(soon()));
        let poll = close.poll(&mut Context::from_waker(Waker::noop()));
        self.waited.store(poll.is_pending(), Ordering::Relaxed);
    }
}

/// A transfer that is no longer held but still completing is waited for, in every mode.
#[tokio::test(start_paused = true)]
async fn close_waits_for_what_is_completing() {
    for build in [MockEngine::manual, MockEngine::immediate] {
        let fixture = Fixture::new();
        let closer = Arc::new(Closer { engine: build(&fixture.store), waited: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&closer));
        let mut posted = pin!(fixture.queue.posted());
        assert_eq!(posted.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        closer.engine.submit(vec![fixture.store(0, "a")]);
        closer.engine.complete_all();
        assert!(closer.waited.load(Ordering::Relaxed));
        closer.engine.close(Instant::now().into_std()).await;
    }
}

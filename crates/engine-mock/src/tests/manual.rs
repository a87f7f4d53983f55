use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kvtier_core::{Direction, Error, ErrorKind, Presence, TransferEngine, TransferId};

use super::{BLOCK_BYTES, Fixture, all_ok, block, ids, key, present};
use crate::{MockEngine, PendingTransfer, ProbeEnd, TransferEnd};

/// Nothing ends by itself, and the held transfers are shown as they were submitted.
#[test]
fn transfers_are_held_in_submission_order() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(2, "b"), fixture.load(1, "a")]);
    engine.submit(Vec::new());
    let pending = |id, direction, name| PendingTransfer {
        id: TransferId(id),
        direction,
        key: key(name),
        deadline: None,
    };
    let expected = [pending(2, Direction::Store, "b"), pending(1, Direction::Load, "a")];
    assert_eq!(engine.pending_transfers(), expected);
    assert_eq!(fixture.results(), []);
    assert!(fixture.store.is_empty());
}

/// Every way to complete follows the order that it promises.
#[test]
fn transfers_end_in_the_order_told() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit((0..7).map(|id| fixture.store(id, &format!("k{id}"))).collect());
    engine.complete(TransferId(3), TransferEnd::Perform);
    assert_eq!(engine.complete_next(), Some(TransferId(0)));
    engine.complete_in_order(&ids(&[6, 1]));
    assert_eq!(engine.complete_all(), 3);
    assert_eq!(fixture.results(), all_ok(&[3, 0, 6, 1, 2, 4, 5]));
    assert_eq!((engine.complete_next(), engine.complete_all()), (None, 0));
    assert_eq!(fixture.store.len(), 7);
}

/// What was stored is loaded, byte for byte.
#[test]
fn performed_transfers_move_the_block() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(5, "a"), fixture.load(6, "a")]);
    engine.complete_all();
    assert_eq!(fixture.results(), all_ok(&[5, 6]));
    assert_eq!(fixture.store.get(&key("a")).unwrap(), block(5).as_slice());
    assert_eq!(fixture.slot(6), block(5));
}

/// The store decides how a performed load ends: missing, short and long objects are told apart from the block.
#[test]
fn performed_loads_report_what_the_store_holds() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    fixture.store.insert(key("short"), vec![1; BLOCK_BYTES - 1]);
    fixture.store.insert(key("long"), vec![1; BLOCK_BYTES + 1]);
    fixture.store.insert(key("empty"), Vec::new());
    let names = ["missing", "short", "long", "empty"];
    engine.submit((0..).zip(names).map(|(id, name)| fixture.load(id, name)).collect());
    engine.complete_all();
    let kinds: Vec<_> = fixture.results().into_iter().map(|(_, result)| result.unwrap_err()).collect();
    assert_eq!(kinds, [ErrorKind::NotFound, ErrorKind::Corrupt, ErrorKind::Corrupt, ErrorKind::Corrupt]);
}

/// A failure moves no byte and arrives as it was given; the slot is free again.
#[test]
fn a_failure_is_what_was_told() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(0, "a")]);
    engine.complete(TransferId(0), TransferEnd::Fail(Error::new(ErrorKind::Throttled, "slow down")));
    assert_eq!(fixture.results(), [(0, Err(ErrorKind::Throttled))]);
    assert!(fixture.store.is_empty());
    assert_eq!(fixture.memory.leased_slots(), 0);
}

/// A forgotten transfer is closed and its slot free; forgotten after its address was given away, it is lost and
/// its slot quarantined.
#[test]
fn a_dropped_transfer_is_closed_or_lost() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(0, "a"), fixture.load(1, "b")]);
    engine.complete(TransferId(0), TransferEnd::Drop);
    engine.complete(TransferId(1), TransferEnd::DropExposed);
    assert_eq!(fixture.results(), [(0, Err(ErrorKind::Closed)), (1, Err(ErrorKind::Lost))]);
    assert_eq!((fixture.memory.leased_slots(), fixture.memory.quarantined_slots()), (0, 1));
}

/// A test that names a transfer or probe that is not held is wrong, and hears so; the engine goes on.
#[test]
fn completing_what_is_not_held_panics() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    engine.submit(vec![fixture.store(0, "a")]);
    let complete = catch_unwind(AssertUnwindSafe(|| engine.complete(TransferId(1), TransferEnd::Perform)));
    let answer = catch_unwind(AssertUnwindSafe(|| engine.answer(&key("a"), ProbeEnd::Perform)));
    assert!(complete.is_err() && answer.is_err());
    assert_eq!(engine.complete_all(), 1);
}

/// Probes end as told, in the order told; of two with one key, the older first.
#[test]
fn probes_end_as_told() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    fixture.store.insert(key("a"), vec![1; 3]);
    let names = ["a", "b", "b", "c", "a"];
    engine.lookup((0..).zip(names).map(|(id, name)| fixture.probe(id, name)).collect());
    assert_eq!(engine.pending_probes(), names.map(key));
    engine.answer(&key("b"), ProbeEnd::Fail(Error::new(ErrorKind::Denied, "no")));
    engine.answer(&key("c"), ProbeEnd::Drop);
    engine.answer(&key("b"), ProbeEnd::Perform);
    assert_eq!(engine.answer_all(), 2);
    let expected = [
        (1, Err(ErrorKind::Denied)),
        (3, Err(ErrorKind::Closed)),
        (2, Ok(Presence::Absent)),
        (0, Ok(present(3))),
        (4, Ok(present(3))),
    ];
    assert_eq!(fixture.answers(), expected);
}

/// An engine that claims to be blind is.
#[test]
fn capabilities_are_what_the_engine_does() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store).with_capabilities(|capabilities| {
        capabilities.transfers_in_flight_max = 3;
        capabilities.detects_short = false;
        capabilities.detects_long = false;
        capabilities.reports_size = false;
    });
    assert_eq!(engine.capabilities().transfers_in_flight_max, 3);
    fixture.store.insert(key("short"), vec![1; 2]);
    fixture.store.insert(key("long"), vec![2; BLOCK_BYTES + 1]);
    engine.submit(vec![fixture.load(0, "short"), fixture.load(1, "long")]);
    engine.complete_all();
    assert_eq!(fixture.results(), all_ok(&[0, 1]));
    assert_eq!(fixture.slot(0), [1, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(fixture.slot(1), [2; BLOCK_BYTES]);
    engine.lookup(vec![fixture.probe(0, "short")]);
    engine.answer_all();
    assert_eq!(fixture.answers(), [(0, Ok(Presence::Present { size_bytes: None }))]);
}

/// The waits end with the submit that brings the number asked for, and not before.
#[tokio::test]
async fn waits_end_when_enough_is_held() {
    let fixture = Fixture::new();
    let engine = MockEngine::manual(&fixture.store);
    let mut two_transfers = pin!(engine.wait_for_transfers(2));
    let mut one_probe = pin!(engine.wait_for_probes(1));
    let mut context = Context::from_waker(Waker::noop());
    engine.submit(vec![fixture.store(0, "a")]);
    assert_eq!(two_transfers.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(one_probe.as_mut().poll(&mut context), Poll::Pending);
    engine.submit(vec![fixture.store(1, "b")]);
    engine.lookup(vec![fixture.probe(0, "a")]);
    two_transfers.await;
    one_probe.await;
    engine.wait_for_transfers(1).await;
}

/// Calls back into the engine from inside a completion, as a woken tier on another thread may.
struct Reentrant(Arc<MockEngine>);

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {
        self.0.complete_next();
        self.0.answer_all();
    }
}

/// No lock is held while a transfer completes or a probe is answered: the consumer that it wakes can call the engine.
#[test]
fn completions_hold_no_lock() {
    let fixture = Fixture::new();
    let engine = Arc::new(MockEngine::manual(&fixture.store));
    engine.submit((0..3).map(|id| fixture.store(id, "a")).collect());
    engine.lookup(vec![fixture.probe(0, "a"), fixture.probe(1, "a")]);
    let waker = Waker::from(Arc::new(Reentrant(Arc::clone(&engine))));
    let mut posted = pin!(fixture.queue.posted());
    assert_eq!(posted.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    engine.complete(TransferId(2), TransferEnd::Perform);
    let done = fixture.queue.take();
    let order: Vec<_> = done.transfers.iter().map(|done| done.id.0).collect();
    assert_eq!((order, done.answers.len()), (vec![2, 0], 2));
}

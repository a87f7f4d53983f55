use kvtier_core::{ErrorKind, Presence, TransferEngine};

use super::{Fixture, all_ok, block, key, present};
use crate::MockEngine;

/// Everything is complete when `submit` and `lookup` return, in order, and nothing is held.
#[test]
fn everything_ends_inside_the_call() {
    let fixture = Fixture::new();
    let engine = MockEngine::immediate(&fixture.store);
    engine.submit(vec![fixture.store(4, "a"), fixture.load(2, "missing"), fixture.load(3, "a")]);
    assert_eq!(fixture.results(), [(4, Ok(())), (2, Err(ErrorKind::NotFound)), (3, Ok(()))]);
    assert_eq!(fixture.slot(3), block(4));
    engine.lookup(vec![fixture.probe(0, "b"), fixture.probe(1, "a")]);
    assert_eq!(fixture.answers(), [(0, Ok(Presence::Absent)), (1, Ok(present(8)))]);
    assert!(engine.pending_transfers().is_empty() && engine.pending_probes().is_empty());
}

/// Discarded transfers succeed and touch neither store nor slot.
#[test]
fn discard_moves_nothing() {
    let fixture = Fixture::new();
    let engine = MockEngine::discard(&fixture.store);
    fixture.store.insert(key("a"), vec![9; 8]);
    engine.submit(vec![fixture.store(1, "b"), fixture.load(2, "a"), fixture.load(3, "missing")]);
    assert_eq!(fixture.results(), all_ok(&[1, 2, 3]));
    assert_eq!(fixture.store.keys(), [key("a")]);
    assert_eq!(fixture.slot(2), [0; 8]);
}

/// Two engines over one store see each other's objects, as two replicas do.
#[test]
fn engines_share_a_store() {
    let fixture = Fixture::new();
    let (one, other) = (MockEngine::immediate(&fixture.store), MockEngine::immediate(&fixture.store));
    one.submit(vec![fixture.store(7, "a")]);
    other.submit(vec![fixture.load(8, "a")]);
    assert_eq!(fixture.results(), all_ok(&[7, 8]));
    assert_eq!(fixture.slot(8), block(7));
    assert_eq!(fixture.store.remove(&key("a")).unwrap(), block(7).as_slice());
    other.lookup(vec![fixture.probe(0, "a")]);
    assert_eq!(fixture.answers(), [(0, Ok(Presence::Absent))]);
}

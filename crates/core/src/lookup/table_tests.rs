use super::*;
use crate::ErrorKind;

const A: RequestId = RequestId(1);
const B: RequestId = RequestId(2);

fn table() -> LookupTable {
    LookupTable::new(LookupLimits { entries_max: 4, in_flight_max: 2 })
}

fn key(n: u8) -> OffloadKey {
    OffloadKey::new(&[n], 0).unwrap()
}

const PRESENT: Presence = Presence::Present { size_bytes: Some(1) };

fn probes(table: &mut LookupTable) -> Vec<(ProbeId, OffloadKey)> {
    std::iter::from_fn(|| table.next_probe()).collect()
}

/// Asks for a key and sends its probe.
fn probed(table: &mut LookupTable, request: RequestId, key: &OffloadKey) -> ProbeId {
    assert_eq!(table.lookup(request, key), Verdict::Pending);
    table.flush();
    probes(table)[0].0
}

/// A new key is pending, is sent only after the flush, and then answers what the store said.
// vLLM's A1, A2.
#[test]
fn a_key_is_asked_after_the_flush() {
    let mut table = table();
    assert_eq!(table.lookup(A, &key(1)), Verdict::Pending);
    assert!(probes(&mut table).is_empty(), "nothing is sent before the flush");
    table.flush();
    let sent = probes(&mut table);
    assert_eq!(sent, [(ProbeId(0), key(1))]);
    assert_eq!(table.lookup(A, &key(1)), Verdict::Pending);
    table.answer(sent[0].0, &Ok(PRESENT));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Hit);
    let absent = probed(&mut table, A, &key(2));
    table.answer(absent, &Ok(Presence::Absent));
    assert_eq!(table.lookup(A, &key(2)), Verdict::Miss);
}

/// Keys go out in the order asked, each once however many ask, and never more than the window.
// vLLM's A3, A4.
#[test]
fn one_probe_per_key_in_order_within_the_window() {
    let mut table = table();
    for (request, n) in [(A, 3), (B, 3), (A, 1), (A, 3), (B, 2)] {
        table.lookup(request, &key(n));
    }
    table.flush();
    let first = probes(&mut table);
    assert_eq!(first.iter().map(|(_, key)| *key).collect::<Vec<_>>(), [key(3), key(1)]);
    table.answer(first[1].0, &Ok(PRESENT));
    assert_eq!(probes(&mut table), [(ProbeId(2), key(2))]);
}

/// An error answers miss, and is counted as an error.
// vLLM's O10, A14.
#[test]
fn an_error_is_a_counted_miss() {
    let mut table = table();
    let id = probed(&mut table, A, &key(1));
    table.answer(id, &Err(Error::new(ErrorKind::Denied, "planted")));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Miss);
    assert_eq!(table.counts().failed, 1);
}

/// A verdict is shared, and forgotten with the last request that holds it.
// vLLM's A7.
#[test]
fn the_last_holder_frees_the_entry() {
    let mut table = table();
    let id = probed(&mut table, A, &key(1));
    table.answer(id, &Ok(PRESENT));
    assert_eq!(table.lookup(B, &key(1)), Verdict::Hit);
    table.finish_request(A);
    assert_eq!(table.counts().entries, 1);
    table.finish_request(B);
    table.finish_request(RequestId(99));
    assert_eq!(table.counts().entries, 0);
    assert!(table.requests.is_empty());
}

/// A key whose request ends before the flush is not sent; asked again, it is sent once.
// vLLM's A9.
#[test]
fn a_dropped_key_is_not_sent() {
    let mut table = table();
    table.lookup(A, &key(1));
    table.finish_request(A);
    table.flush();
    assert!(probes(&mut table).is_empty());
    table.lookup(A, &key(1));
    table.finish_request(A);
    table.lookup(B, &key(1));
    table.flush();
    assert_eq!(probes(&mut table).len(), 1);
}

/// A probe in flight outlives its request: the next one attaches to it without a second probe;
/// if nobody does, its answer is forgotten.
// vLLM's A10.
#[test]
fn a_probe_in_flight_is_reused() {
    let mut table = table();
    let id = probed(&mut table, A, &key(1));
    table.finish_request(A);
    assert_eq!(table.lookup(B, &key(1)), Verdict::Pending);
    table.flush();
    assert!(probes(&mut table).is_empty());
    table.answer(id, &Ok(PRESENT));
    assert_eq!(table.lookup(B, &key(1)), Verdict::Hit);

    let id = probed(&mut table, A, &key(2));
    table.finish_request(A);
    table.answer(id, &Ok(PRESENT));
    assert_eq!(table.counts().entries, 1, "only key 1 is left");
}

/// An answer that comes after its entry was resolved and asked anew does not land on the new one.
// vLLM's A11.
#[test]
fn a_late_answer_is_ignored() {
    let mut table = table();
    let old = probed(&mut table, A, &key(1));
    table.stored(&key(1));
    table.finish_request(A);
    let new = probed(&mut table, A, &key(1));
    table.answer(old, &Ok(PRESENT));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Pending);
    table.answer(new, &Ok(Presence::Absent));
    table.answer(new, &Ok(PRESENT));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Miss);
}

/// A failed load turns a hit into a miss that stays without a new probe, until all holders have ended.
// vLLM's O17, O18, A13.
#[test]
fn a_failed_load_ends_the_hit() {
    let mut table = table();
    let id = probed(&mut table, A, &key(1));
    table.load_failed(&key(1));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Pending, "no effect on a probe in flight");
    table.answer(id, &Ok(PRESENT));
    table.load_failed(&key(1));
    table.load_failed(&key(9));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Miss);
    table.flush();
    assert!(probes(&mut table).is_empty());
    table.finish_request(A);
    assert_eq!(table.lookup(B, &key(1)), Verdict::Pending);
}

/// A finished store turns waiting and negative answers into hits.
// vLLM's A16.
#[test]
fn a_store_turns_misses_into_hits() {
    let mut table = table();
    let id = probed(&mut table, A, &key(1));
    table.answer(id, &Ok(Presence::Absent));
    table.lookup(A, &key(2));
    table.stored(&key(1));
    table.stored(&key(2));
    assert_eq!(table.lookup(A, &key(1)), Verdict::Hit);
    assert_eq!(table.lookup(A, &key(2)), Verdict::Hit);
}

/// A store that finishes while only an orphaned probe holds the entry leaves nothing behind.
#[test]
fn a_store_during_an_orphaned_probe_leaks_nothing() {
    let mut table = table();
    let id = probed(&mut table, A, &key(1));
    table.finish_request(A);
    table.stored(&key(1));
    table.answer(id, &Ok(PRESENT));
    assert_eq!(table.counts().entries, 0);
}

/// A full table answers miss and counts it; so do keys asked and dropped over and over in one step.
#[test]
fn a_full_table_answers_miss() {
    let mut full = table();
    for n in 0..4 {
        assert_eq!(full.lookup(A, &key(n)), Verdict::Pending);
    }
    assert_eq!(full.lookup(A, &key(9)), Verdict::Miss);
    assert_eq!(full.counts().refused, 1);

    let mut churned = table();
    for _ in 0..10 {
        churned.lookup(A, &key(1));
        churned.finish_request(A);
    }
    assert_eq!(churned.asked.len(), 4, "the list of keys to send is bounded, too");
}

/// After a close nothing stays pending: known answers stay, everything else is a miss.
// vLLM's A15.
#[test]
fn a_closed_table_answers_at_once() {
    let mut table = table();
    let hit = probed(&mut table, A, &key(1));
    table.answer(hit, &Ok(PRESENT));
    let in_flight = probed(&mut table, A, &key(2));
    let orphan = probed(&mut table, B, &key(3));
    table.finish_request(B);
    table.close();
    assert_eq!(table.lookup(A, &key(1)), Verdict::Hit);
    for n in [2, 3, 4] {
        assert_eq!(table.lookup(A, &key(n)), Verdict::Miss);
    }
    table.answer(in_flight, &Ok(PRESENT));
    table.answer(orphan, &Ok(PRESENT));
    assert_eq!(table.counts().entries, 2);
}

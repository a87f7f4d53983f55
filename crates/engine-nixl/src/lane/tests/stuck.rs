use std::sync::atomic::Ordering;
use std::time::Duration;

use kvtier_core::{Direction, ErrorKind};

use super::bench::{BLOCK_BYTES, Bench, TIMEOUT, options};
use super::world::{Call, World};
use crate::lane::{AGENTS_ENDING_MAX, LaneOptions};

fn with_stuck(keys: &[&str]) -> World {
    let objects = [("kv/good".to_owned(), vec![9; BLOCK_BYTES])].into();
    World { stuck: keys.iter().map(|key| (*key).to_owned()).collect(), objects, ..World::default() }
}

fn kind(bench: &Bench, id: u64) -> ErrorKind {
    bench.ended[&id].as_ref().unwrap_err().kind()
}

/// A staged block is given up at its deadline, its slot is free at once, and what its request writes later lands in
/// no slot; the others go on, and its buffer is not used again.
#[test]
fn a_stuck_request_holds_no_slot() {
    let mut bench = Bench::new(with_stuck(&["kv/stuck"]), options(false));
    let stuck = bench.send(Direction::Load, "kv/stuck", 0, Some(Duration::from_secs(5)));
    bench.step();
    assert!(bench.ended.is_empty());
    bench.now += Duration::from_secs(5);
    bench.step();
    assert_eq!(kind(&bench, stuck), ErrorKind::Timeout);
    assert_eq!(bench.health.stuck.load(Ordering::Relaxed), 1);
    bench.fill(0, 77);
    let good = bench.send(Direction::Load, "kv/good", 1, None);
    bench.settle();
    assert!(bench.ended[&good].is_ok());
    assert_eq!(bench.world.lock().log.iter().filter(|call| **call == Call::RegisterHost).count(), 2);
    // The world's agent waits for the request when it ends, and so do its writes.
    bench.close();
    bench.assert_clean(2);
    assert_eq!(bench.slot(0), vec![77; BLOCK_BYTES]);
    assert_eq!(bench.world.lock().left_over(), 0);
}

/// A request that was given up and ends later gives its buffer back.
#[test]
fn a_late_end_gives_the_buffer_back() {
    let mut bench = Bench::new(with_stuck(&["kv/stuck"]), options(false));
    bench.send(Direction::Load, "kv/stuck", 0, Some(Duration::from_secs(1)));
    bench.step();
    bench.now += Duration::from_secs(1);
    bench.step();
    bench.world.lock().stuck.clear();
    bench.step();
    assert_eq!(bench.health.stuck.load(Ordering::Relaxed), 0);
    bench.send(Direction::Load, "kv/good", 1, None);
    bench.settle();
    assert_eq!(bench.world.lock().log.iter().filter(|call| **call == Call::RegisterHost).count(), 1);
    bench.close();
    bench.assert_clean(2);
}

/// When stuck requests hold every thread, the agent is replaced and work goes on; so often and no more.
#[test]
fn a_wedged_agent_is_replaced() {
    let mut bench = Bench::new(with_stuck(&["kv/a", "kv/b"]), options(false));
    let started = bench.world.lock().log.len();
    assert_eq!(started, 3);
    for _ in 0..AGENTS_ENDING_MAX {
        // Kept from ending, as a stuck request would.
        bench.health.ending.fetch_add(1, Ordering::Relaxed);
    }
    for (slot, key) in (0..).zip(["kv/a", "kv/b"]) {
        bench.send(Direction::Load, key, slot, Some(Duration::from_secs(1)));
    }
    bench.step();
    bench.now += Duration::from_secs(1);
    bench.step();
    let refused = bench.send(Direction::Load, "kv/good", 2, None);
    bench.step();
    assert_eq!(kind(&bench, refused), ErrorKind::Unavailable, "no more agents than the bound");
    bench.health.ending.store(0, Ordering::Relaxed);
    bench.step();
    assert_eq!(bench.health.replaced.load(Ordering::Relaxed), 1);
    assert_eq!(bench.health.stuck.load(Ordering::Relaxed), 0);
    let good = bench.send(Direction::Load, "kv/good", 3, None);
    bench.settle();
    assert!(bench.ended[&good].is_ok(), "{:?}", bench.ended[&good]);
    bench.close();
    bench.assert_clean(4);
}

/// The same when they hold every place of a narrow window, or every buffer of a small budget.
#[test]
fn a_lane_without_room_gets_a_new_agent() {
    for options in
        [LaneOptions { window: 1, ..options(false) }, LaneOptions { staging_bytes: 1, ..options(false) }]
    {
        let mut bench = Bench::new(with_stuck(&["kv/stuck"]), options);
        bench.send(Direction::Load, "kv/stuck", 0, Some(Duration::from_secs(1)));
        bench.step();
        bench.now += Duration::from_secs(1);
        bench.step();
        let good = bench.send(Direction::Load, "kv/good", 1, None);
        bench.settle();
        assert!(bench.ended[&good].is_ok(), "{:?}", bench.ended[&good]);
        assert_eq!(bench.health.replaced.load(Ordering::Relaxed), 1);
        bench.close();
        bench.assert_clean(2);
    }
}

/// Closing gives up what is staged at the deadline, before or behind the threads; a later transfer is refused.
#[test]
fn closing_ends_everything() {
    let mut bench = Bench::new(with_stuck(&["kv/stuck"]), options(false));
    let stuck = bench.send(Direction::Store, "kv/stuck", 0, None);
    let good = bench.send(Direction::Load, "kv/good", 1, None);
    bench.step();
    let deadline = bench.now + Duration::from_secs(2);
    bench.lane().close(deadline);
    let late = bench.send(Direction::Load, "kv/good", 2, None);
    bench.settle();
    assert!(!bench.lane().is_over(), "a request still has time");
    bench.now = deadline;
    bench.step();
    assert!(bench.lane().is_over());
    assert!(bench.ended[&good].is_ok());
    assert_eq!((kind(&bench, stuck), kind(&bench, late)), (ErrorKind::Timeout, ErrorKind::Closed));
    drop(bench.lane.take());
    bench.assert_clean(3);
}

/// Without staging a slot in flight is never given up: its report comes when its agent has ended, not before.
#[test]
fn a_slot_in_flight_is_withheld_until_its_agent_ended() {
    let mut bench = Bench::new(with_stuck(&["kv/stuck"]), options(true));
    let stuck = bench.send(Direction::Load, "kv/stuck", 0, Some(Duration::from_secs(1)));
    bench.step();
    bench.now += TIMEOUT * 2;
    let now = bench.now;
    bench.lane().close(now);
    bench.step();
    assert!(bench.ended.is_empty() && !bench.lane().is_over());
    assert_eq!(bench.memory.leased_slots(), 1);
    // As when its thread panics.
    drop(bench.lane.take());
    bench.collect();
    assert_eq!(kind(&bench, stuck), ErrorKind::Unavailable);
    bench.assert_clean(1);
}

/// An agent that does not end keeps the slot for ever: its transfer is never reported.
#[test]
fn a_slot_of_an_agent_that_does_not_end_is_leaked() {
    let world = World { fail: Some((Call::DestroyAgent, 0)), ..with_stuck(&["kv/stuck"]) };
    let mut bench = Bench::new(world, options(true));
    bench.send(Direction::Load, "kv/stuck", 0, None);
    bench.step();
    drop(bench.lane.take());
    bench.collect();
    assert!(bench.ended.is_empty());
    assert_eq!(bench.memory.leased_slots(), 1);
}

/// Work whose time is over before it began is not begun.
#[test]
fn late_work_is_not_begun() {
    let mut bench = Bench::new(World::default(), options(false));
    let id = bench.send(Direction::Store, "kv/a", 0, Some(Duration::ZERO));
    bench.step();
    assert_eq!(kind(&bench, id), ErrorKind::Timeout);
    assert!(bench.world.lock().objects.is_empty());
    bench.close();
    bench.assert_clean(1);
}

use std::time::Duration;

use kvtier_core::Direction;
use proptest::prelude::*;

use super::bench::{BLOCK_BYTES, Bench, SLOTS, options};
use super::world::{Call, World};

/// One thing that happens to a lane.
#[derive(Clone, Debug)]
enum Event {
    Store { key: u8, slot: u32, after_ms: Option<u64> },
    Load { key: u8, slot: u32, after_ms: Option<u64> },
    Ask { key: u8 },
    Step { after_ms: u64 },
    Unstick,
}

fn event() -> impl Strategy<Value = Event> {
    let after = || prop::option::weighted(0.3, 0_u64..50);
    prop_oneof![
        3 => (0_u8..8, 0..SLOTS, after()).prop_map(|(key, slot, after_ms)| Event::Store { key, slot, after_ms }),
        3 => (0_u8..8, 0..SLOTS, after()).prop_map(|(key, slot, after_ms)| Event::Load { key, slot, after_ms }),
        1 => (0_u8..8).prop_map(|key| Event::Ask { key }),
        4 => (0_u64..40).prop_map(|after_ms| Event::Step { after_ms }),
        1 => Just(Event::Unstick),
    ]
}

/// Fails one call in `one_in` of those that a seed picks.
fn failures(seed: u64, one_in: u64) -> Box<dyn FnMut(Call) -> bool + Send> {
    let mut state = seed | 1;
    Box::new(move |call| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A handle that cannot be ended is leaked on purpose, which the other tests look at.
        !call.leaks() && (state >> 33).is_multiple_of(one_in)
    })
}

proptest! {
    /// Whatever fails, sticks or comes late: no handle is misused or left over, each transfer has one result, each slot
    /// is free, no slot of a failed load changed, and what was loaded is what was stored.
    #[test]
    fn handles_are_released_and_blocks_reported(
        events in proptest::collection::vec(event(), 1..80),
        zero_copy: bool,
        seed: u64,
        polls in 0_usize..3,
        stuck in proptest::collection::btree_set(6_u8..8, 0..2),
    ) {
        let name = |key: u8| format!("kv/{key}");
        let world = World { polls, stuck: stuck.into_iter().map(name).collect(), ..World::default() };
        let Ok(mut bench) = Bench::try_new(world, options(zero_copy)) else { unreachable!("nothing fails yet") };
        bench.world.lock().failures = Some(failures(seed, 6));
        let mut sent = 0;
        let mut asked = 0;
        for event in events {
            match event {
                Event::Store { key, slot, after_ms } => {
                    // Content follows from the key, so that any later load can be checked.
                    if bench.memory.lease(slot, kvtier_core::Access::Write).is_ok() {
                        bench.fill(slot, key + 1);
                        bench.send(Direction::Store, &name(key), slot, after_ms.map(Duration::from_millis));
                        sent += 1;
                    }
                }
                Event::Load { key, slot, after_ms } => {
                    if bench.memory.lease(slot, kvtier_core::Access::Write).is_ok() {
                        bench.fill(slot, 0xAA);
                        let id = bench.send(Direction::Load, &name(key), slot, after_ms.map(Duration::from_millis));
                        sent += 1;
                        bench.step();
                        if let Some(result) = bench.ended.get(&id) {
                            let expected = if result.is_ok() { key + 1 } else { 0xAA };
                            prop_assert!(zero_copy || bench.slot(slot) == vec![expected; BLOCK_BYTES]);
                        }
                    }
                }
                Event::Ask { key } => {
                    bench.ask(&name(key));
                    asked += 1;
                }
                Event::Step { after_ms } => {
                    bench.now += Duration::from_millis(after_ms);
                    bench.step();
                }
                Event::Unstick => bench.world.lock().stuck.clear(),
            }
        }
        bench.settle();
        bench.close();
        // Agents that were replaced end on threads of their own.
        while bench.health.ending.load(std::sync::atomic::Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        bench.collect();
        bench.assert_clean(sent);
        prop_assert_eq!(bench.answers.len(), asked);
        prop_assert_eq!(bench.world.lock().left_over(), 0);
    }
}

//! Whole replays on the state machines, from seeds. `KVTIER_SIM_SEED=n` runs one seed, `KVTIER_SIM_SEEDS=n` so many.

use std::panic::catch_unwind;

use kvtier_tests::sim::{Event, INVARIANTS, Planted, Sim, replay};
use proptest::prelude::*;

/// Seeds of an ordinary run.
const SEEDS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// Every seed is served, with every invariant after every event; a failing one is named with the command that repeats it.
#[test]
fn every_seed_is_served() {
    let seeds = match (number("KVTIER_SIM_SEED"), number("KVTIER_SIM_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(SEEDS),
    };
    let (mut events, mut loaded, mut computed) = (0, 0, 0);
    for seed in seeds.clone() {
        let served = catch_unwind(|| replay(seed, Planted::Nothing));
        let summary = served.unwrap_or_else(|_| {
            panic!("seed {seed} failed; KVTIER_SIM_SEED={seed} cargo test -p kvtier-tests --test simulation repeats it")
        });
        events += summary.events;
        loaded += summary.loaded;
        computed += summary.computed;
    }
    println!(
        "simulation: {} seeds, {events} events, {} checks of {INVARIANTS} invariants; {loaded} blocks loaded, {computed} computed",
        seeds.end - seeds.start,
        events * INVARIANTS
    );
    assert!(loaded > 0 && computed > 0, "the workload shows nothing");
}

/// A seed does the same every time, and another seed something else.
#[test]
fn a_seed_repeats_bit_for_bit() {
    let runs = [7, 7, 8].map(|seed| replay(seed, Planted::Nothing));
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].digest, runs[2].digest);
}

/// The checks are alive: a byte that changes in the store, and a completion that gets lost, are both noticed.
#[test]
fn planted_defects_are_noticed() {
    for planted in [Planted::FlippedByte, Planted::LostCompletion] {
        let noticed = (0..20).filter(|seed| catch_unwind(|| replay(*seed, planted)).is_err()).count();
        assert!(noticed > 0, "{planted:?} was not noticed");
        println!("{planted:?}: noticed in {noticed} of 20 seeds");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The same for any events at all, also those that no caller would make.
    #[test]
    fn any_events_keep_the_books(bytes in proptest::collection::vec(any::<[u8; Event::BYTES]>(), 0..120)) {
        let mut sim = Sim::new();
        for event in bytes.into_iter().map(Event::decode) {
            sim.apply(event);
        }
        sim.end();
    }
}

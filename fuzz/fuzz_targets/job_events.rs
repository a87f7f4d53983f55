//! Jobs, lookups, memory and the mock engine under any sequence of events, against a model after each; nothing is left at
//! the end. The same simulation as in `tests/tests/simulation.rs`.
#![no_main]

use kvtier_tests::sim::{Event, Sim};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut sim = Sim::new();
    for event in Event::all(bytes) {
        sim.apply(event);
    }
    sim.end();
});

//! The mock's seeded schedule, with any seed and rates: everything it is given ends once, and the same again does the same.
#![no_main]

use std::sync::Arc;

use kvtier_core::{
    CompletionQueue, Direction, ErrorKind, HostMemory, ObjectKey, Probe, ProbeId, Transfer, TransferEngine,
    TransferId,
};
use kvtier_engine_mock::{Faults, MockEngine, MockStore, Schedule};
use libfuzzer_sys::fuzz_target;

/// Most works of one input, each with a slot of its own.
const WORKS_MAX: usize = 64;
/// A lost transfer leaks its memory on purpose, so only one seed in so many loses any: or a minute would take all memory.
const SEEDS_PER_LOSS: u64 = 64;

/// What the schedule did, and how many transfers and probes ended.
fn run(seed: u64, rates: [u8; 4], work: &[u8]) -> (String, usize, usize) {
    // Together at most 1000, which the schedule insists on.
    let [fail_per_mille, lost, absent_per_mille, short_per_mille] = rates.map(|rate| u32::from(rate) % 250);
    let lost_per_mille = if seed.is_multiple_of(SEEDS_PER_LOSS) { lost } else { 0 };
    let fail_kinds = vec![ErrorKind::Throttled, ErrorKind::Denied];
    let faults = Faults { fail_per_mille, fail_kinds, lost_per_mille, absent_per_mille, short_per_mille };
    let (engine, queue) = (MockEngine::manual(&MockStore::default()), Arc::<CompletionQueue>::default());
    let memory = HostMemory::allocate(8, WORKS_MAX as u32).unwrap();
    let mut schedule = Schedule::new(seed, faults);
    for ((id, slot), byte) in (0..).zip(0..).zip(work) {
        let key = ObjectKey::new(format!("{}", byte % 8)).unwrap();
        if byte.is_multiple_of(5) {
            engine.lookup(vec![Probe::new(ProbeId(id), key, &queue)]);
        } else {
            let direction = if byte.is_multiple_of(2) { Direction::Store } else { Direction::Load };
            let lease = memory.lease(slot, direction.access()).unwrap();
            engine.submit(vec![Transfer::new(TransferId(id), direction, key, lease, &queue)]);
        }
        if byte.is_multiple_of(7) {
            schedule.run_until_idle(&engine);
        }
    }
    schedule.run_until_idle(&engine);
    let posted = queue.take();
    (format!("{:?}", schedule.trace()), posted.transfers.len(), posted.answers.len())
}

fuzz_target!(|input: (u64, [u8; 4], &[u8])| {
    let (seed, rates, work) = input;
    let work = &work[..work.len().min(WORKS_MAX)];
    let (trace, transfers, probes) = run(seed, rates, work);
    assert_eq!(transfers + probes, work.len(), "something did not end, or ended twice");
    assert_eq!(run(seed, rates, work), (trace, transfers, probes), "a seed did something else");
});

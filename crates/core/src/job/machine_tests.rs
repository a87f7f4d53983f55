use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{ErrorKind, LeaseError};

/// A hold on a slot whose live copies can be counted.
type Hold = Rc<()>;

struct Bench {
    machine: JobMachine<Hold>,
    slots: Hold,
    now: Instant,
}

const RETRY: RetryPolicy = RetryPolicy {
    attempts_max: 3,
    backoff_first: Duration::from_millis(10),
    backoff_max: Duration::from_millis(100),
};

impl Bench {
    fn new(in_flight_max: u32) -> Self {
        let limits = JobLimits { in_flight_max, queued_max: 100, block_bytes: 10 };
        #[expect(clippy::disallowed_methods, reason = "an arbitrary start: only differences matter")]
        let now = Instant::now();
        Self { machine: JobMachine::new(limits, RETRY), slots: Rc::new(()), now }
    }

    fn accept(&mut self, id: u64, direction: Direction, blocks: u64) -> Result<(), SubmitError> {
        let keys = (0..blocks).map(|block| key(id, block)).collect();
        let leases = (0..blocks).map(|_| Rc::clone(&self.slots)).collect();
        self.machine.accept(self.now, JobName::Numbered(JobId(id)), direction, keys, leases)
    }

    fn launch_all(&mut self) -> Vec<Launch<Hold>> {
        std::iter::from_fn(|| self.machine.launch(self.now)).collect()
    }

    fn settle(&mut self, launch: Launch<Hold>, result: Result<(), Error>) -> Settled {
        self.machine.settle(self.now, launch.id, Some(launch.lease), result)
    }

    /// Holds that are out: queued, in flight or in the test's hands.
    fn holds(&self) -> usize {
        Rc::strong_count(&self.slots) - 1
    }

    fn only_report(&mut self) -> JobReport {
        let mut finished = self.machine.take_finished();
        assert_eq!(finished.len(), 1);
        finished.remove(0).1
    }
}

fn key(job: u64, block: u64) -> OffloadKey {
    OffloadKey::new(&[job.to_be_bytes(), block.to_be_bytes()].concat(), 0).unwrap()
}

fn failure(kind: ErrorKind) -> Result<(), Error> {
    Err(Error::new(kind, "planted"))
}

/// An empty job succeeds, and is reported once.
#[test]
fn an_empty_job_is_finished_at_once() {
    let mut bench = Bench::new(1);
    bench.accept(1, Direction::Store, 0).unwrap();
    assert!(bench.only_report().is_success());
    assert!(bench.machine.take_finished().is_empty());
}

/// A number is taken from acceptance until its report was taken and released.
#[test]
fn a_live_number_is_refused() {
    let mut bench = Bench::new(1);
    bench.accept(1, Direction::Store, 1).unwrap();
    let refused = Err(SubmitError::DuplicateJob(JobId(1)));
    assert_eq!(bench.accept(1, Direction::Load, 1), refused);
    assert_eq!(bench.holds(), 1, "the refused job's hold was dropped");
    let launch = bench.machine.launch(bench.now).unwrap();
    bench.settle(launch, Ok(()));
    assert_eq!(bench.accept(1, Direction::Load, 1), refused, "finished, not reported");
    bench.machine.take_finished();
    assert_eq!(bench.accept(1, Direction::Load, 1), refused, "reported, not released");
    bench.machine.release(JobId(1));
    bench.accept(1, Direction::Load, 1).unwrap();
    bench.machine.release(JobId(1));
    assert_eq!(bench.accept(1, Direction::Load, 1), refused, "release frees finished jobs only");
}

/// The queue's bound refuses a job whole, and keys must pair up with holds.
#[test]
fn a_full_queue_and_odd_lengths_are_refused() {
    let mut bench = Bench::new(1);
    bench.accept(1, Direction::Store, 60).unwrap();
    let refused = bench.accept(2, Direction::Store, 41).unwrap_err();
    assert_eq!(refused, SubmitError::QueueFull { blocks: 41, queued: 60, max: 100 });
    let refused = bench
        .machine
        .accept(bench.now, JobName::Task(0), Direction::Load, vec![key(9, 9)], vec![])
        .unwrap_err();
    assert_eq!(refused, SubmitError::LengthMismatch { keys: 1, slots: 0 });
    assert_eq!(bench.holds(), 60);
    bench.machine.assert_invariants();
}

/// Refusals read as sentences that say what is in the way.
#[test]
fn refusals_explain_themselves() {
    let text = SubmitError::from(LeaseError::Written { slot: 3 }).to_string();
    assert_eq!(text, "slot 3 is being written");
    assert_eq!(
        SubmitError::DuplicateJob(JobId(7)).to_string(),
        "job 7 is still live: its report was not taken yet"
    );
}

/// Outcomes stand in the caller's order, whatever the order of completion.
#[test]
fn outcomes_keep_the_callers_order() {
    let mut bench = Bench::new(3);
    bench.accept(1, Direction::Load, 3).unwrap();
    let mut launches = bench.launch_all();
    let (third, second, first) = (launches.remove(2), launches.remove(1), launches.remove(0));
    bench.settle(third, failure(ErrorKind::Corrupt));
    bench.settle(first, Ok(()));
    bench.settle(second, failure(ErrorKind::NotFound));
    let report = bench.only_report();
    assert_eq!(report.keys, [key(1, 0), key(1, 1), key(1, 2)]);
    assert!(matches!(
        &report.outcomes[..],
        [Outcome::Done, Outcome::Failed(b), Outcome::Failed(c)]
            if b.kind() == ErrorKind::NotFound && c.kind() == ErrorKind::Corrupt
    ));
    assert_eq!(report.bytes, 10);
    assert_eq!(bench.holds(), 0);
}

/// Loads overtake queued stores; within a direction the order is that of acceptance.
#[test]
fn loads_go_first() {
    let mut bench = Bench::new(100);
    bench.accept(1, Direction::Store, 1).unwrap();
    bench.accept(2, Direction::Load, 1).unwrap();
    bench.accept(3, Direction::Store, 1).unwrap();
    let order: Vec<_> = bench.launch_all().iter().map(|launch| launch.key).collect();
    assert_eq!(order, [key(2, 0), key(1, 0), key(3, 0)]);
}

/// A temporary failure is tried again with the same hold after its backoff, a bounded number of times.
#[test]
fn temporary_failures_are_retried_after_backoff() {
    let mut bench = Bench::new(1);
    bench.accept(1, Direction::Load, 1).unwrap();
    for backoff_ms in [10, 20] {
        let launch = bench.machine.launch(bench.now).unwrap();
        assert_eq!(bench.settle(launch, failure(ErrorKind::Throttled)), Settled::Retrying);
        assert_eq!(bench.holds(), 1, "the slot stays taken between tries");
        assert!(bench.machine.launch(bench.now).is_none(), "not before its time");
        let due = bench.now + Duration::from_millis(backoff_ms);
        assert_eq!(bench.machine.next_wake(), Some(due));
        bench.now = due;
    }
    let launch = bench.machine.launch(bench.now).unwrap();
    assert_eq!(bench.settle(launch, failure(ErrorKind::Throttled)), Settled::Final);
    assert!(!bench.only_report().is_success());
    assert_eq!(bench.holds(), 0);
}

/// A retry that is due wakes nobody while the window is full, nor once everything is cancelled: a driver would spin.
#[test]
fn a_retry_that_cannot_go_wakes_nobody() {
    let mut bench = Bench::new(1);
    bench.accept(1, Direction::Load, 2).unwrap();
    let first = bench.machine.launch(bench.now).unwrap();
    bench.settle(first, failure(ErrorKind::Timeout));
    let second = bench.machine.launch(bench.now).unwrap();
    assert_eq!(bench.machine.next_wake(), None, "the window is full");
    bench.settle(second, failure(ErrorKind::Timeout));
    assert!(bench.machine.next_wake().is_some());
    bench.machine.cancel_all(bench.now);
    assert_eq!(bench.machine.next_wake(), None, "nothing is left to retry");
}

/// A permanent failure is final, and so is a temporary one that lost its hold.
#[test]
fn permanent_failures_and_lost_holds_are_final() {
    let mut bench = Bench::new(2);
    bench.accept(1, Direction::Load, 2).unwrap();
    let mut launches = bench.launch_all();
    let lost = launches.pop().unwrap();
    let denied = launches.pop().unwrap();
    assert_eq!(bench.settle(denied, failure(ErrorKind::Denied)), Settled::Final);
    let settled = bench.machine.settle(bench.now, lost.id, None, failure(ErrorKind::Timeout));
    assert_eq!(settled, Settled::Final);
    assert_eq!(bench.only_report().outcomes.len(), 2);
}

/// A cancel ends queued blocks, those in backoff included, and waits for those in flight.
#[test]
fn cancel_touches_queued_blocks_only() {
    let mut bench = Bench::new(2);
    bench.accept(1, Direction::Load, 4).unwrap();
    let mut launches = bench.launch_all();
    let in_flight = launches.pop().unwrap();
    bench.settle(launches.pop().unwrap(), failure(ErrorKind::Timeout));
    assert_eq!(bench.machine.cancel(bench.now, JobName::Numbered(JobId(1))), Cancel::Cancelled);
    assert!(bench.machine.take_finished().is_empty());
    assert_eq!(bench.machine.counts(), JobCounts { running: 1, queued: 0, in_flight: 1 });
    bench.settle(in_flight, failure(ErrorKind::Timeout));
    let report = bench.only_report();
    let cancelled = report.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Cancelled)).count();
    assert_eq!(cancelled, 3, "a cancelled job is not retried");
    assert_eq!(bench.machine.cancel(bench.now, JobName::Numbered(JobId(1))), Cancel::NotRunning);
    bench.now += Duration::from_secs(1);
    assert!(bench.machine.launch(bench.now).is_none());
}

/// A second completion of one transfer, or one made up, changes nothing.
#[test]
fn unknown_transfers_are_ignored() {
    let mut bench = Bench::new(2);
    bench.accept(1, Direction::Load, 2).unwrap();
    let mut launches = bench.launch_all();
    let id = launches[0].id;
    let first = launches.remove(0);
    bench.settle(first, Ok(()));
    assert_eq!(bench.machine.settle(bench.now, id, None, Ok(())), Settled::Unknown);
    assert_eq!(bench.machine.settle(bench.now, TransferId(99), None, Ok(())), Settled::Unknown);
    assert_eq!(bench.machine.counts().in_flight, 1);
    bench.machine.assert_invariants();
}

/// The invariant check sees books that do not balance: a block forgotten by its count.
#[test]
#[should_panic(expected = "queued blocks do not add up")]
fn the_invariant_check_sees_a_planted_defect() {
    let mut bench = Bench::new(1);
    bench.accept(1, Direction::Load, 2).unwrap();
    bench.machine.queued -= 1;
    bench.machine.assert_invariants();
}

#[derive(Clone, Debug)]
enum Step {
    Accept { id: u64, load: bool, blocks: u64 },
    Launch,
    Settle { which: prop::sample::Index, end: End },
    Cancel { id: u64 },
    CancelAll,
    Advance { ms: u64 },
    Take,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Done,
    Temporary,
    Permanent,
    Lost,
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![Just(End::Done), Just(End::Temporary), Just(End::Permanent), Just(End::Lost)];
    prop_oneof![
        3 => (0..6_u64, any::<bool>(), 0..12_u64).prop_map(|(id, load, blocks)| Step::Accept { id, load, blocks }),
        5 => Just(Step::Launch),
        6 => (any::<prop::sample::Index>(), end).prop_map(|(which, end)| Step::Settle { which, end }),
        1 => (0..6_u64).prop_map(|id| Step::Cancel { id }),
        1 => Just(Step::CancelAll),
        2 => (0..60_u64).prop_map(|ms| Step::Advance { ms }),
        2 => Just(Step::Take),
    ]
}

/// What a run expects: accepted jobs by number, each with its block count, until reported.
#[derive(Default)]
struct Model {
    live: BTreeMap<u64, u64>,
    /// Jobs not yet reported, and how each block last ended, as far as the test caused it.
    in_flight: Vec<Launch<Hold>>,
    ended: HashMap<OffloadKey, bool>,
}

impl Model {
    fn take(&mut self, bench: &mut Bench) {
        for (_, report) in bench.machine.take_finished() {
            let id = report.id.unwrap();
            let blocks = self.live.remove(&id.0).expect("a job is reported once, and only if accepted");
            let expected: Vec<_> = (0..blocks).map(|block| key(id.0, block)).collect();
            assert_eq!(report.keys, expected, "the caller's order");
            for (key, outcome) in report.blocks() {
                let ended = self.ended.remove(key);
                match outcome {
                    Outcome::Done => assert_eq!(ended, Some(true)),
                    Outcome::Failed(_) => assert_eq!(ended, Some(false)),
                    // Never launched, or failed before and waiting for its next try.
                    Outcome::Cancelled => assert_ne!(ended, Some(true)),
                    Outcome::Skipped => unreachable!("nothing skips here"),
                }
            }
            bench.machine.release(id);
        }
    }

    fn apply(&mut self, bench: &mut Bench, step: &Step) {
        match *step {
            Step::Accept { id, load, blocks } => {
                let direction = if load { Direction::Load } else { Direction::Store };
                match bench.accept(id, direction, blocks) {
                    Ok(()) => assert_eq!(self.live.insert(id, blocks), None),
                    Err(SubmitError::DuplicateJob(_)) => assert!(self.live.contains_key(&id)),
                    Err(SubmitError::QueueFull { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Launch => self.in_flight.extend(bench.machine.launch(bench.now)),
            Step::Settle { which, end } => {
                if self.in_flight.is_empty() {
                    return;
                }
                let Launch { id, key, lease, .. } =
                    self.in_flight.swap_remove(which.index(self.in_flight.len()));
                let (lease, result) = match end {
                    End::Done => (Some(lease), Ok(())),
                    End::Temporary => (Some(lease), failure(ErrorKind::Unavailable)),
                    End::Permanent => (Some(lease), failure(ErrorKind::Corrupt)),
                    End::Lost => (None, failure(ErrorKind::Lost)),
                };
                self.ended.insert(key, result.is_ok());
                assert_ne!(bench.machine.settle(bench.now, id, lease, result), Settled::Unknown);
            }
            Step::Cancel { id } => {
                bench.machine.cancel(bench.now, JobName::Numbered(JobId(id)));
            }
            Step::CancelAll => bench.machine.cancel_all(bench.now),
            Step::Advance { ms } => bench.now += Duration::from_millis(ms),
            Step::Take => self.take(bench),
        }
    }
}

proptest! {
    /// Whatever happens in whatever order: the books balance after every step, every accepted job is reported exactly
    /// once with outcomes that match what happened to its blocks, and no hold is left at the end.
    /// A failing case prints its steps; `PROPTEST_CASES=1 cargo test -p kvtier-core` replays it from the regressions file.
    #[test]
    fn every_job_is_reported_once_whatever_happens(
        in_flight_max in 1..6_u32,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut bench = Bench::new(in_flight_max);
        let mut model = Model::default();
        for step in &steps {
            model.apply(&mut bench, step);
            bench.machine.assert_invariants();
        }
        while bench.machine.counts() != JobCounts::default() {
            bench.now += RETRY.backoff_max;
            model.in_flight.extend(bench.launch_all());
            let launch = model.in_flight.pop().expect("something is in flight until all is settled");
            model.ended.insert(launch.key, true);
            bench.settle(launch, Ok(()));
        }
        model.take(&mut bench);
        prop_assert!(model.live.is_empty());
        prop_assert_eq!(bench.holds(), 0);
        prop_assert!(bench.machine.names.is_empty());
    }
}

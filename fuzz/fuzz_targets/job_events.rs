//! The job state machine under any sequence of events: its books balance after each, every accepted job is reported
//! once, and no hold on a slot is left at the end.
#![no_main]

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use kvtier_core::job::{JobCounts, JobLimits, JobMachine, JobName, Launch, RetryPolicy};
use kvtier_core::{Direction, Error, ErrorKind, JobId, OffloadKey};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Event {
    Accept { id: u8, load: bool, blocks: u8 },
    Launch,
    Settle { which: u8, end: End },
    Cancel { id: u8 },
    CancelAll,
    Advance { ms: u8 },
    Take,
}

#[derive(Arbitrary, Debug)]
enum End {
    Done,
    Temporary,
    Permanent,
    Lost,
}

struct World {
    machine: JobMachine<Rc<()>>,
    hold: Rc<()>,
    now: Instant,
    in_flight: Vec<Launch<Rc<()>>>,
    live: HashSet<JobId>,
}

impl World {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Accept { id, load, blocks } => {
                let id = JobId(id.into());
                let direction = if load { Direction::Load } else { Direction::Store };
                let keys = (0..blocks).map(|block| OffloadKey::new(&[block], 0).unwrap()).collect();
                let holds = (0..blocks).map(|_| Rc::clone(&self.hold)).collect();
                let accepted = self.machine.accept(self.now, JobName::Numbered(id), direction, keys, holds);
                if accepted.is_ok() {
                    assert!(self.live.insert(id), "a live number was accepted");
                }
            }
            Event::Launch => self.in_flight.extend(self.machine.launch(self.now)),
            Event::Settle { which, end } if !self.in_flight.is_empty() => {
                let launch = self.in_flight.swap_remove(usize::from(which) % self.in_flight.len());
                let error = |kind| Err(Error::new(kind, "fuzzed"));
                let (hold, result) = match end {
                    End::Done => (Some(launch.lease), Ok(())),
                    End::Temporary => (Some(launch.lease), error(ErrorKind::Throttled)),
                    End::Permanent => (Some(launch.lease), error(ErrorKind::Denied)),
                    End::Lost => (None, error(ErrorKind::Lost)),
                };
                self.machine.settle(self.now, launch.id, hold, result);
            }
            Event::Settle { .. } => {}
            Event::Cancel { id } => {
                self.machine.cancel(self.now, JobName::Numbered(JobId(id.into())));
            }
            Event::CancelAll => self.machine.cancel_all(self.now),
            Event::Advance { ms } => self.now += Duration::from_millis(ms.into()),
            Event::Take => self.take(),
        }
    }

    fn take(&mut self) {
        for (_, report) in self.machine.take_finished() {
            let id = report.id.unwrap();
            assert!(self.live.remove(&id), "a job was reported twice, or never accepted");
            assert_eq!(report.keys.len(), report.outcomes.len());
            self.machine.release(id);
        }
    }
}

fuzz_target!(|events: Vec<Event>| {
    let limits = JobLimits { in_flight_max: 4, queued_max: 600, block_bytes: 1 };
    let mut world = World {
        machine: JobMachine::new(limits, RetryPolicy::default()),
        hold: Rc::new(()),
        now: Instant::now(),
        in_flight: Vec::new(),
        live: HashSet::new(),
    };
    for event in events {
        world.apply(event);
        world.machine.assert_invariants();
    }
    world.machine.cancel_all(world.now);
    for launch in std::mem::take(&mut world.in_flight) {
        world.machine.settle(world.now, launch.id, Some(launch.lease), Ok(()));
    }
    world.take();
    assert!(world.live.is_empty(), "a job was never reported");
    assert_eq!(world.machine.counts(), JobCounts::default());
    assert_eq!(Rc::strong_count(&world.hold), 1, "a hold was left");
});

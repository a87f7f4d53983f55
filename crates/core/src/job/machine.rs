use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Instant;

use super::{JobCounts, JobId, JobLimits, JobReport, Outcome, RetryPolicy, SubmitError};
use crate::time::later;
use crate::{Direction, Error, OffloadKey, Retry, TransferId};

/// What a job is called inside the machine: by the caller's number, or by the task that awaits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobName {
    /// Numbered by the caller.
    Numbered(JobId),
    /// Awaited by a task; numbered by whoever runs the machine.
    Task(u64),
}

/// A block to be handed to the engine now.
#[derive(Debug)]
pub struct Launch<L> {
    /// The number to settle it by.
    pub id: TransferId,
    /// Which way it moves.
    pub direction: Direction,
    /// What it holds.
    pub key: OffloadKey,
    /// The hold on its slot.
    pub lease: L,
}

/// What [`JobMachine::settle`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The block has its outcome.
    Final,
    /// The block is queued again, to be launched after its backoff.
    Retrying,
    /// No such transfer is in flight: an engine completed one twice, or made one up. Ignored.
    Unknown,
}

/// What [`JobMachine::cancel`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// The job's queued blocks are cancelled; it ends when its blocks in flight do.
    Cancelled,
    /// No such job, or it is finished already.
    NotRunning,
}

/// The state machine of jobs and their blocks: pure, with no clock, no I/O and no threads, so that the same
/// code runs in production, simulation and fuzzing.
///
/// `L` is the hold on a slot; the machine only moves it around. A block goes
/// `Queued -> InFlight -> settled`, back to `Queued` if its failure was temporary and tries are left, or
/// from `Queued` to `Cancelled`. A job is finished when all of its blocks are settled.
///
/// # Contract
/// - Each method is one event; `now` never goes backwards.
/// - Each accepted job is reported exactly once by [`take_finished`](Self::take_finished), with one outcome per block
///   in the caller's order, and only after every hold of its blocks was dropped or given up.
/// - A cancel touches queued blocks only: what is in flight stays so until it is settled.
/// - Loads are launched before stores, and each in the order of acceptance; a retry before both.
///
/// ```
/// use std::time::Instant;
/// use kvtier_core::job::{JobLimits, JobMachine, JobName, RetryPolicy};
/// use kvtier_core::{Direction, JobId, OffloadKey};
///
/// let limits = JobLimits { in_flight_max: 1, queued_max: 10, block_bytes: 4096 };
/// let mut machine = JobMachine::new(limits, RetryPolicy::NEVER);
/// let now = Instant::now(); // any instant: only differences matter
/// let keys = vec![OffloadKey::new(b"a", 0)?, OffloadKey::new(b"b", 0)?];
/// machine.accept(now, JobName::Numbered(JobId(1)), Direction::Load, keys, vec!["slot 0", "slot 1"])?;
///
/// let first = machine.launch(now).unwrap();
/// assert!(machine.launch(now).is_none(), "one in flight at most");
/// machine.settle(now, first.id, Some(first.lease), Ok(()));
/// let second = machine.launch(now).unwrap();
/// machine.settle(now, second.id, Some(second.lease), Ok(()));
///
/// let (_, report) = machine.take_finished().remove(0);
/// assert_eq!(report.bytes, 8192);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JobMachine<L> {
    limits: JobLimits,
    retry: RetryPolicy,
    jobs: HashMap<Seq, Job<L>>,
    /// Names not free yet: of running jobs, and of finished ones until [`release`](Self::release).
    names: HashMap<JobName, Seq>,
    loads: VecDeque<Seq>,
    stores: VecDeque<Seq>,
    backoff: BinaryHeap<Reverse<Backoff>>,
    in_flight: HashMap<TransferId, Place>,
    finished: Vec<(JobName, JobReport)>,
    queued: u32,
    next_seq: u64,
    next_transfer: u64,
}

/// A job's number inside the machine, never used twice, so that a stale reference meets nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Seq(u64);

/// Where a block is: its job, its index there, and which try this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    job: Seq,
    index: usize,
    attempt: u8,
}

/// A block that is tried again at `at`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Backoff {
    at: Instant,
    place: Place,
}

#[derive(Debug)]
struct Job<L> {
    name: JobName,
    direction: Direction,
    keys: Vec<OffloadKey>,
    blocks: Vec<Block<L>>,
    /// Blocks from here on were never launched.
    next: usize,
    unsettled: usize,
    cancelled: bool,
    accepted: Instant,
}

#[derive(Debug)]
enum Block<L> {
    Queued(L),
    InFlight,
    Settled(Outcome),
}

impl<L> JobMachine<L> {
    /// An empty machine.
    pub fn new(limits: JobLimits, retry: RetryPolicy) -> Self {
        Self {
            limits,
            retry,
            jobs: HashMap::new(),
            names: HashMap::new(),
            loads: VecDeque::new(),
            stores: VecDeque::new(),
            backoff: BinaryHeap::new(),
            in_flight: HashMap::new(),
            finished: Vec::new(),
            queued: 0,
            next_seq: 0,
            next_transfer: 0,
        }
    }

    /// Accepts a job. An empty one is finished at once.
    ///
    /// # Errors
    /// [`SubmitError::LengthMismatch`], [`SubmitError::DuplicateJob`] or [`SubmitError::QueueFull`]; the leases are
    /// dropped and nothing else changes.
    pub fn accept(
        &mut self,
        now: Instant,
        name: JobName,
        direction: Direction,
        keys: Vec<OffloadKey>,
        leases: Vec<L>,
    ) -> Result<(), SubmitError> {
        let blocks = leases.len();
        if keys.len() != blocks {
            return Err(SubmitError::LengthMismatch { keys: keys.len(), slots: blocks });
        }
        if let JobName::Numbered(id) = name
            && self.names.contains_key(&name)
        {
            return Err(SubmitError::DuplicateJob(id));
        }
        let (queued, max) = (self.queued, self.limits.queued_max);
        let Some(queued_after) =
            u32::try_from(blocks).ok().and_then(|n| queued.checked_add(n)).filter(|n| *n <= max)
        else {
            return Err(SubmitError::QueueFull { blocks, queued, max });
        };

        let seq = Seq(self.next_seq);
        self.next_seq += 1;
        self.queued = queued_after;
        self.names.insert(name, seq);
        let job = Job {
            name,
            direction,
            keys,
            blocks: leases.into_iter().map(Block::Queued).collect(),
            next: 0,
            unsettled: blocks,
            cancelled: false,
            accepted: now,
        };
        self.jobs.insert(seq, job);
        if blocks > 0 {
            self.queue_of(direction).push_back(seq);
        }
        self.finish_if_settled(now, seq);
        Ok(())
    }

    /// The next block to hand to the engine, or `None` if the window is full or nothing is due.
    pub fn launch(&mut self, now: Instant) -> Option<Launch<L>> {
        if self.is_full() {
            return None;
        }
        let place = self.next_retry(now).or_else(|| self.next_fresh())?;
        let job = self.jobs.get_mut(&place.job)?;
        let Block::Queued(lease) = std::mem::replace(&mut job.blocks[place.index], Block::InFlight) else {
            unreachable!("next_retry and next_fresh name queued blocks only");
        };
        let id = TransferId(self.next_transfer);
        self.next_transfer += 1;
        self.queued -= 1;
        self.in_flight.insert(id, place);
        Some(Launch { id, direction: job.direction, key: job.keys[place.index], lease })
    }

    /// Takes a transfer's end: its hold, unless that is given up, and its result.
    pub fn settle(
        &mut self,
        now: Instant,
        id: TransferId,
        lease: Option<L>,
        result: Result<(), Error>,
    ) -> Settled {
        let Some(place) = self.in_flight.remove(&id) else {
            return Settled::Unknown;
        };
        let Some(job) = self.jobs.get_mut(&place.job) else {
            unreachable!("a job outlives its blocks in flight");
        };
        let outcome = match result {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let may_retry = error.retry() == Retry::Temporary && !job.cancelled;
                if may_retry
                    && let (Some(wait), Some(lease)) = (self.retry.backoff_after(place.attempt), lease)
                {
                    job.blocks[place.index] = Block::Queued(lease);
                    self.queued += 1;
                    let place = Place { attempt: place.attempt + 1, ..place };
                    self.backoff.push(Reverse(Backoff { at: later(now, wait), place }));
                    return Settled::Retrying;
                }
                Outcome::Failed(error)
            }
        };
        job.blocks[place.index] = Block::Settled(outcome);
        job.unsettled -= 1;
        self.finish_if_settled(now, place.job);
        Settled::Final
    }

    /// Cancels a job's queued blocks.
    pub fn cancel(&mut self, now: Instant, name: JobName) -> Cancel {
        match self.names.get(&name) {
            Some(seq) if self.jobs.contains_key(seq) => {
                self.cancel_blocks(now, *seq);
                Cancel::Cancelled
            }
            _ => Cancel::NotRunning,
        }
    }

    /// Cancels the queued blocks of every job.
    pub fn cancel_all(&mut self, now: Instant) {
        let mut all: Vec<_> = self.jobs.keys().copied().collect();
        all.sort_unstable();
        for seq in all {
            self.cancel_blocks(now, seq);
        }
        self.backoff.clear();
    }

    /// The reports of jobs finished since the last call, in the order in which they finished. A
    /// numbered job's name stays taken until [`release`](Self::release).
    pub fn take_finished(&mut self) -> Vec<(JobName, JobReport)> {
        std::mem::take(&mut self.finished)
    }

    /// Frees the name of a finished job, once the caller has its report.
    pub fn release(&mut self, id: JobId) {
        let name = JobName::Numbered(id);
        if self.names.get(&name).is_some_and(|seq| !self.jobs.contains_key(seq)) {
            self.names.remove(&name);
        }
    }

    /// When [`launch`](Self::launch) has something to do, if nothing else happens before.
    pub fn next_wake(&self) -> Option<Instant> {
        // With a full window, only a settled block lets a retry go, however long it is due.
        if self.is_full() {
            return None;
        }
        self.backoff.peek().map(|Reverse(backoff)| backoff.at)
    }

    /// How much the machine holds.
    pub fn counts(&self) -> JobCounts {
        let in_flight = u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX);
        JobCounts { running: self.jobs.len(), queued: self.queued, in_flight }
    }

    /// Checks that the books balance: queued + in flight + settled = total, in every job and in
    /// all. Costs a pass over every block: for tests, simulation and fuzzing.
    ///
    /// # Panics
    /// If they do not.
    pub fn assert_invariants(&self) {
        let (mut queued, mut in_flight) = (0, 0);
        for job in self.jobs.values() {
            let count =
                |wanted: fn(&Block<L>) -> bool| job.blocks.iter().filter(|block| wanted(block)).count();
            let settled = count(|block| matches!(block, Block::Settled(_)));
            queued += count(|block| matches!(block, Block::Queued(_)));
            in_flight += count(|block| matches!(block, Block::InFlight));
            assert_eq!(job.unsettled + settled, job.blocks.len(), "blocks do not add up");
            assert!(job.unsettled > 0, "a settled job is not finished");
            assert_eq!(job.keys.len(), job.blocks.len(), "a block lost its key");
        }
        assert_eq!(queued, self.queued as usize, "queued blocks do not add up");
        assert_eq!(in_flight, self.in_flight.len(), "blocks in flight do not add up");
        assert!(self.in_flight.len() <= self.limits.in_flight_max as usize, "the window overflows");
        assert!(
            self.queued <= self.limits.queued_max.saturating_add(self.limits.in_flight_max),
            "the queue overflows"
        );
    }

    fn is_full(&self) -> bool {
        self.in_flight.len() >= self.limits.in_flight_max as usize
    }

    fn queue_of(&mut self, direction: Direction) -> &mut VecDeque<Seq> {
        match direction {
            Direction::Load => &mut self.loads,
            Direction::Store => &mut self.stores,
        }
    }

    fn next_retry(&mut self, now: Instant) -> Option<Place> {
        loop {
            let due = self.backoff.peek().is_some_and(|Reverse(backoff)| backoff.at <= now);
            let Reverse(Backoff { place, .. }) = if due { self.backoff.pop()? } else { return None };
            // A cancel leaves its entries here; they name blocks that are not queued any more.
            let blocks = self.jobs.get(&place.job).map(|job| &job.blocks);
            if blocks.is_some_and(|blocks| matches!(blocks[place.index], Block::Queued(_))) {
                return Some(place);
            }
        }
    }

    fn next_fresh(&mut self) -> Option<Place> {
        for queue in [&mut self.loads, &mut self.stores] {
            while let Some(seq) = queue.front().copied() {
                // A finished or cancelled job leaves its entry here.
                if let Some(job) = self.jobs.get_mut(&seq)
                    && job.next < job.blocks.len()
                {
                    job.next += 1;
                    return Some(Place { job: seq, index: job.next - 1, attempt: 1 });
                }
                queue.pop_front();
            }
        }
        None
    }

    fn cancel_blocks(&mut self, now: Instant, seq: Seq) {
        let Some(job) = self.jobs.get_mut(&seq) else { return };
        job.cancelled = true;
        job.next = job.blocks.len();
        for block in &mut job.blocks {
            if matches!(block, Block::Queued(_)) {
                *block = Block::Settled(Outcome::Cancelled);
                job.unsettled -= 1;
                self.queued -= 1;
            }
        }
        self.finish_if_settled(now, seq);
    }

    fn finish_if_settled(&mut self, now: Instant, seq: Seq) {
        if self.jobs.get(&seq).is_none_or(|job| job.unsettled > 0) {
            return;
        }
        let Some(job) = self.jobs.remove(&seq) else { return };
        let id = match job.name {
            JobName::Numbered(id) => Some(id),
            JobName::Task(_) => {
                self.names.remove(&job.name);
                None
            }
        };
        let outcomes: Vec<_> = job.blocks.into_iter().map(Block::into_outcome).collect();
        let done = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done)).count();
        let report = JobReport {
            id,
            direction: job.direction,
            keys: job.keys,
            outcomes,
            bytes: done as u64 * self.limits.block_bytes,
            duration: now.saturating_duration_since(job.accepted),
        };
        self.finished.push((job.name, report));
    }
}

impl<L> Block<L> {
    fn into_outcome(self) -> Outcome {
        match self {
            Self::Settled(outcome) => outcome,
            Self::Queued(_) | Self::InFlight => unreachable!("a job is finished when every block is settled"),
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;

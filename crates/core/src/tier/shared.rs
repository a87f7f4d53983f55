use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::TierOptions;
use super::aftermath::{Aftermath, Finished};
use super::launches::Launches;
use crate::completion::{Answer, Completion, CompletionQueue};
use crate::job::{Cancel, JobMachine, JobName, Launch, Settled};
use crate::lookup::{LookupCounts, LookupTable};
use crate::time::later;
use crate::{
    Direction, Error, HostMemory, JobReport, KeyMapper, Lease, OffloadKey, Outcome, Probe, SubmitError,
    Transfer, TransferEngine, TransferId,
};

/// A snapshot of what a tier holds and what it has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Jobs accepted and not finished.
    pub running_jobs: usize,
    /// Finished jobs whose report was not taken.
    pub untaken_reports: usize,
    /// Blocks waiting to be handed to the engine.
    pub queued_blocks: u32,
    /// Blocks in the engine's hands.
    pub in_flight_blocks: u32,
    /// Slots given up for ever.
    pub quarantined_slots: u32,
    /// Tries that failed for a temporary reason and were queued again.
    pub retries: u64,
    /// Completions of transfers that were not in flight: an engine's fault, ignored.
    pub unknown_completions: u64,
    /// Lookups.
    pub lookups: LookupCounts,
}

/// What the doors and the driver share. Two locks, never held across a call into the engine or the mapper;
/// where both are held, `jobs` is taken first.
pub(super) struct Shared<E, K> {
    pub(super) engine: E,
    pub(super) mapper: K,
    pub(super) memory: Arc<HostMemory>,
    pub(super) runtime: Handle,
    pub(super) completions: Arc<CompletionQueue>,
    pub(super) lookups: Mutex<LookupTable>,
    transfer_timeout: Option<Duration>,
    pub(super) jobs: Mutex<Jobs>,
    /// Notified when jobs settle or the engine is closed, for the blocking doors.
    pub(super) settled: Condvar,
}

pub(super) struct Jobs {
    pub(super) machine: JobMachine<Lease>,
    /// Reports for [`Shared::take_finished`].
    untaken: Vec<JobReport>,
    tasks: HashMap<u64, oneshot::Sender<JobReport>>,
    next_task: u64,
    closing: bool,
    /// Calls of the engine's `close` that have not returned.
    pub(super) closes_running: u32,
    retries: u64,
    unknown_completions: u64,
}

/// When the driver has to come back.
pub(super) enum Turn {
    /// When woken, or at this time.
    Again(Option<Instant>),
    /// Never: the tier is closed and nothing is in flight.
    Closed,
}

impl<E: TransferEngine, K: KeyMapper> Shared<E, K> {
    pub(super) fn new(
        engine: E,
        mapper: K,
        memory: Arc<HostMemory>,
        options: TierOptions,
    ) -> Result<Self, Error> {
        let (job_limits, lookup_limits) = options.limits(engine.capabilities(), memory.block_bytes())?;
        let jobs = Jobs {
            machine: JobMachine::new(job_limits, options.retry),
            untaken: Vec::new(),
            tasks: HashMap::new(),
            next_task: 0,
            closing: false,
            closes_running: 0,
            retries: 0,
            unknown_completions: 0,
        };
        Ok(Self {
            engine,
            mapper,
            memory,
            runtime: options.runtime,
            completions: Arc::default(),
            lookups: Mutex::new(LookupTable::new(lookup_limits)),
            transfer_timeout: options.transfer_timeout,
            jobs: Mutex::new(jobs),
            settled: Condvar::new(),
        })
    }

    /// The runtime's time, which tests can pause.
    pub(super) fn now(&self) -> Instant {
        let _time = self.runtime.enter();
        tokio::time::Instant::now().into_std()
    }

    pub(super) fn submit(
        &self,
        name: JobName,
        direction: Direction,
        keys: Vec<OffloadKey>,
        slots: &[u32],
    ) -> Result<(), SubmitError> {
        if keys.len() != slots.len() {
            return Err(SubmitError::LengthMismatch { keys: keys.len(), slots: slots.len() });
        }
        // On a refusal the leases taken so far are dropped, which gives their slots back.
        let leases = slots
            .iter()
            .map(|slot| self.memory.lease(*slot, direction.access()))
            .collect::<Result<Vec<_>, _>>()?;
        let now = self.now();
        let aftermath = {
            let mut jobs = self.jobs.lock();
            if jobs.closing {
                return Err(SubmitError::Closed);
            }
            jobs.machine.accept(now, name, direction, keys, leases)?;
            self.publish(&mut jobs)
        };
        aftermath.run();
        self.completions.wake();
        Ok(())
    }

    /// Submits a job whose report goes to a task.
    pub(super) fn submit_task(
        &self,
        direction: Direction,
        keys: Vec<OffloadKey>,
        slots: &[u32],
    ) -> Result<(JobName, oneshot::Receiver<JobReport>), SubmitError> {
        let (sender, receiver) = oneshot::channel();
        let task = {
            let mut jobs = self.jobs.lock();
            let task = jobs.next_task;
            jobs.next_task += 1;
            jobs.tasks.insert(task, sender);
            task
        };
        let name = JobName::Task(task);
        match self.submit(name, direction, keys, slots) {
            Ok(()) => Ok((name, receiver)),
            Err(refusal) => {
                self.jobs.lock().tasks.remove(&task);
                Err(refusal)
            }
        }
    }

    pub(super) fn cancel(&self, name: JobName) -> bool {
        let now = self.now();
        let (cancelled, aftermath) = {
            let mut jobs = self.jobs.lock();
            let cancelled = jobs.machine.cancel(now, name) == Cancel::Cancelled;
            (cancelled, self.publish(&mut jobs))
        };
        aftermath.run();
        if cancelled {
            self.settled.notify_all();
        }
        cancelled
    }

    pub(super) fn take_finished(&self) -> Vec<JobReport> {
        let mut jobs = self.jobs.lock();
        let reports = std::mem::take(&mut jobs.untaken);
        for id in reports.iter().filter_map(|report| report.id) {
            jobs.machine.release(id);
        }
        reports
    }

    pub(super) fn has_pending_work(&self) -> bool {
        let jobs = self.jobs.lock();
        jobs.machine.counts().running > 0 || !jobs.untaken.is_empty()
    }

    pub(super) fn end_step(&self) {
        self.lookups.lock().flush();
        self.completions.wake();
    }

    pub(super) fn stats(&self) -> TierStats {
        let lookups = self.lookups.lock().counts();
        let jobs = self.jobs.lock();
        let counts = jobs.machine.counts();
        TierStats {
            running_jobs: counts.running,
            untaken_reports: jobs.untaken.len(),
            queued_blocks: counts.queued,
            in_flight_blocks: counts.in_flight,
            quarantined_slots: self.memory.quarantined_slots(),
            retries: jobs.retries,
            unknown_completions: jobs.unknown_completions,
            lookups,
        }
    }

    /// One turn of the driver: takes what was posted, hands out what is due, publishes what is finished.
    pub(super) fn turn(&self) -> Turn {
        let posted = self.completions.take();
        let now = self.now();
        self.take_answers(posted.answers);

        let mut launches = VecDeque::new();
        let (mut aftermath, unknown, turn) = {
            let mut jobs = self.jobs.lock();
            let unknown = jobs.settle(now, posted.transfers);
            if !jobs.closing {
                launches.extend(std::iter::from_fn(|| jobs.machine.launch(now)));
            }
            let aftermath = self.publish(&mut jobs);
            let wake = jobs.machine.next_wake();
            (aftermath, unknown, if jobs.is_closed() { Turn::Closed } else { Turn::Again(wake) })
        };
        // First of all, and with a guard: what follows runs code of others, which may panic.
        self.launch(now, Launches { rest: launches, completions: &self.completions });
        self.settled.notify_all();
        aftermath.unknown = unknown;
        aftermath.run();
        self.send_probes();
        turn
    }

    pub(super) fn is_closed(&self) -> bool {
        self.jobs.lock().is_closed()
    }

    fn take_answers(&self, answers: Vec<Answer>) {
        if answers.is_empty() {
            return;
        }
        for error in answers.iter().filter_map(|answer| answer.result.as_ref().err()) {
            tracing::debug!(target: "kvtier::lookup", %error, "a lookup failed and answers miss");
        }
        let mut lookups = self.lookups.lock();
        for Answer { id, result } in answers {
            lookups.answer(id, &result);
        }
    }

    fn launch(&self, now: Instant, mut launches: Launches<'_>) {
        if launches.rest.is_empty() {
            return;
        }
        let deadline = self.transfer_timeout.map(|timeout| later(now, timeout));
        let mut batch = Vec::with_capacity(launches.rest.len());
        while let Some(launch) = launches.rest.front() {
            let key = self.mapper.object_key(&launch.key);
            let Some(Launch { id, direction, lease, .. }) = launches.rest.pop_front() else { break };
            batch.push(Transfer::new(id, direction, key, lease, &self.completions).with_deadline(deadline));
        }
        self.engine.submit(batch);
    }

    fn send_probes(&self) {
        let due: Vec<_> = {
            let mut lookups = self.lookups.lock();
            std::iter::from_fn(|| lookups.next_probe()).collect()
        };
        if due.is_empty() {
            return;
        }
        let probe = |(id, key)| Probe::new(id, self.mapper.object_key(&key), &self.completions);
        self.engine.lookup(due.into_iter().map(probe).collect());
    }

    /// Makes finished jobs visible: first to lookups, so that whoever sees a report also sees what follows from it.
    fn publish(&self, jobs: &mut Jobs) -> Aftermath {
        let finished = jobs.machine.take_finished();
        let mut aftermath = Aftermath::default();
        if finished.is_empty() {
            return aftermath;
        }
        let mut lookups = self.lookups.lock();
        for (name, report) in finished {
            learn(&mut lookups, &report);
            aftermath.finished.push(Finished {
                name,
                direction: report.direction,
                blocks: report.keys.len(),
                bytes: report.bytes,
                duration: report.duration,
                success: report.is_success(),
            });
            match name {
                JobName::Numbered(_) => jobs.untaken.push(report),
                // A task that stopped waiting has no sender any more.
                JobName::Task(task) => {
                    aftermath.deliveries.extend(jobs.tasks.remove(&task).map(|sender| (sender, report)));
                }
            }
        }
        aftermath
    }

    /// Refuses jobs, cancels what is queued, and answers every lookup from now on.
    pub(super) fn stop_intake(&self) {
        let now = self.now();
        let aftermath = {
            let mut jobs = self.jobs.lock();
            jobs.closing = true;
            jobs.machine.cancel_all(now);
            self.publish(&mut jobs)
        };
        self.lookups.lock().close();
        self.settled.notify_all();
        aftermath.run();
        self.completions.wake();
    }
}

impl Jobs {
    /// Settles what was completed; returns what was not in flight.
    fn settle(&mut self, now: Instant, completions: Vec<Completion>) -> Vec<TransferId> {
        let mut unknown = Vec::new();
        for Completion { id, lease, result } in completions {
            match self.machine.settle(now, id, lease, result) {
                Settled::Final => {}
                Settled::Retrying => self.retries += 1,
                Settled::Unknown => unknown.push(id),
            }
        }
        self.unknown_completions += unknown.len() as u64;
        unknown
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closing && self.closes_running == 0 && self.machine.counts().in_flight == 0
    }
}

/// What lookups learn from a finished job.
fn learn(lookups: &mut LookupTable, report: &JobReport) {
    for (key, outcome) in report.blocks() {
        match (report.direction, outcome) {
            (Direction::Store, Outcome::Done | Outcome::Skipped) => lookups.stored(key),
            (Direction::Load, Outcome::Failed(_)) => lookups.load_failed(key),
            _ => {}
        }
    }
}

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::TierOptions;
use crate::completion::{Answer, Completion, CompletionQueue};
use crate::job::{Cancel, JobMachine, JobName, Launch, Settled};
use crate::lookup::{LookupCounts, LookupTable};
use crate::time::later;
use crate::{
    Direction, Error, HostMemory, JobReport, KeyMapper, Lease, OffloadKey, Outcome, Probe, SubmitError,
    Transfer, TransferEngine,
};

/// What was still there when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{running_jobs} jobs are still running: {queued_blocks} blocks queued, {in_flight_blocks} in flight")]
pub struct Leftover {
    /// Jobs without a report.
    pub running_jobs: usize,
    /// Blocks not yet handed to the engine.
    pub queued_blocks: u32,
    /// Blocks in the engine's hands: their slots may still be touched.
    pub in_flight_blocks: u32,
}

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
    jobs: Mutex<Jobs>,
    /// Notified when jobs settle or the engine is closed, for the blocking doors.
    settled: Condvar,
    driver_alive: AtomicBool,
}

struct Jobs {
    machine: JobMachine<Lease>,
    /// Reports for [`Shared::take_finished`].
    untaken: Vec<JobReport>,
    tasks: HashMap<u64, oneshot::Sender<JobReport>>,
    next_task: u64,
    closing: bool,
    /// Calls of the engine's `close` that have not returned.
    closes_running: u32,
    retries: u64,
    unknown_completions: u64,
}

/// Reports on their way to the tasks that await them, sent when no lock is held.
type Deliveries = Vec<(oneshot::Sender<JobReport>, JobReport)>;

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
            driver_alive: AtomicBool::new(true),
        })
    }

    /// The runtime's time, which tests can pause.
    fn now(&self) -> Instant {
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
        let deliveries = {
            let mut jobs = self.jobs.lock();
            if jobs.closing {
                return Err(SubmitError::Closed);
            }
            jobs.machine.accept(now, name, direction, keys, leases)?;
            self.publish(&mut jobs)
        };
        deliver(deliveries);
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
        let (cancelled, deliveries) = {
            let mut jobs = self.jobs.lock();
            let cancelled = jobs.machine.cancel(now, name) == Cancel::Cancelled;
            (cancelled, self.publish(&mut jobs))
        };
        deliver(deliveries);
        cancelled
    }

    pub(super) fn take_finished(&self) -> Vec<JobReport> {
        self.turn_if_undriven();
        let mut jobs = self.jobs.lock();
        let reports = std::mem::take(&mut jobs.untaken);
        for id in reports.iter().filter_map(|report| report.id) {
            jobs.machine.release(id);
        }
        reports
    }

    pub(super) fn has_pending_work(&self) -> bool {
        self.turn_if_undriven();
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

        let mut launches = Vec::new();
        let (deliveries, turn) = {
            let mut jobs = self.jobs.lock();
            jobs.settle(now, posted.transfers);
            if !jobs.closing {
                launches.extend(std::iter::from_fn(|| jobs.machine.launch(now)));
            }
            let deliveries = self.publish(&mut jobs);
            let wake = jobs.machine.next_wake();
            (deliveries, if jobs.is_closed() { Turn::Closed } else { Turn::Again(wake) })
        };
        self.settled.notify_all();
        deliver(deliveries);
        self.launch(now, launches);
        self.send_probes();
        turn
    }

    /// Without a driver (its runtime is gone) the polling doors settle what is left themselves.
    fn turn_if_undriven(&self) {
        if !self.driver_alive.load(Ordering::Acquire) {
            self.turn();
        }
    }

    /// The driver has ended or was dropped with its runtime: nothing new can be moved.
    pub(super) fn driver_is_gone(&self) {
        self.stop_intake();
        self.driver_alive.store(false, Ordering::Release);
        self.turn();
    }

    fn take_answers(&self, answers: Vec<Answer>) {
        if answers.is_empty() {
            return;
        }
        let mut lookups = self.lookups.lock();
        for Answer { id, result } in answers {
            if let Err(error) = &result {
                tracing::debug!(target: "kvtier::lookup", %error, "a lookup failed and answers miss");
            }
            lookups.answer(id, &result);
        }
    }

    fn launch(&self, now: Instant, launches: Vec<Launch<Lease>>) {
        if launches.is_empty() {
            return;
        }
        let deadline = self.transfer_timeout.map(|timeout| later(now, timeout));
        let transfer = |launch: Launch<Lease>| {
            let key = self.mapper.object_key(&launch.key);
            Transfer::new(launch.id, launch.direction, key, launch.lease, &self.completions)
                .with_deadline(deadline)
        };
        self.engine.submit(launches.into_iter().map(transfer).collect());
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
    fn publish(&self, jobs: &mut Jobs) -> Deliveries {
        let finished = jobs.machine.take_finished();
        if finished.is_empty() {
            return Vec::new();
        }
        let mut deliveries = Vec::new();
        let mut lookups = self.lookups.lock();
        for (name, report) in finished {
            learn(&mut lookups, &report);
            tracing::debug!(
                target: "kvtier::job", ?name, direction = %report.direction, blocks = report.keys.len(),
                bytes = report.bytes, duration = ?report.duration, success = report.is_success(), "job finished"
            );
            match name {
                JobName::Numbered(_) => jobs.untaken.push(report),
                // A task that stopped waiting has no sender any more.
                JobName::Task(task) => {
                    deliveries.extend(jobs.tasks.remove(&task).map(|sender| (sender, report)));
                }
            }
        }
        deliveries
    }

    fn stop_intake(&self) {
        let now = self.now();
        let deliveries = {
            let mut jobs = self.jobs.lock();
            jobs.closing = true;
            jobs.machine.cancel_all(now);
            self.publish(&mut jobs)
        };
        self.lookups.lock().close();
        deliver(deliveries);
        self.completions.wake();
    }

    pub(super) fn drain(&self, timeout: Duration) -> Result<(), Leftover> {
        self.wait_until(timeout, |jobs| jobs.machine.counts().running == 0)
    }

    pub(super) fn wait_closed(&self, timeout: Duration) -> Result<(), Leftover> {
        self.wait_until(timeout, Jobs::is_closed)
    }

    fn wait_until(&self, timeout: Duration, done: impl Fn(&Jobs) -> bool) -> Result<(), Leftover> {
        let deadline = later(self.now(), timeout);
        self.turn_if_undriven();
        let mut jobs = self.jobs.lock();
        while !done(&jobs) {
            if self.settled.wait_until(&mut jobs, deadline).timed_out() {
                // Without a driver nobody notifies: look once more at what was posted.
                MutexGuard::unlocked(&mut jobs, || self.turn_if_undriven());
                return if done(&jobs) { Ok(()) } else { Err(jobs.leftover()) };
            }
        }
        Ok(())
    }
}

impl<E: TransferEngine, K: KeyMapper> Shared<E, K> {
    /// Stops intake, cancels what is queued, and has the engine closed in the background.
    pub(super) fn begin_close(self: &Arc<Self>, timeout: Duration) {
        self.stop_intake();
        self.jobs.lock().closes_running += 1;
        let deadline = later(self.now(), timeout);
        let guard = CloseGuard(Arc::clone(self));
        self.runtime.spawn(async move {
            guard.0.engine.close(deadline).await;
            drop(guard);
        });
    }
}

/// Counts a call of the engine's `close` as returned, also when its runtime is gone.
struct CloseGuard<E: TransferEngine, K: KeyMapper>(Arc<Shared<E, K>>);

impl<E: TransferEngine, K: KeyMapper> Drop for CloseGuard<E, K> {
    fn drop(&mut self) {
        self.0.jobs.lock().closes_running -= 1;
        self.0.settled.notify_all();
        self.0.completions.wake();
    }
}

impl Jobs {
    fn settle(&mut self, now: Instant, completions: Vec<Completion>) {
        for Completion { id, lease, result } in completions {
            match self.machine.settle(now, id, lease, result) {
                Settled::Final => {}
                Settled::Retrying => self.retries += 1,
                Settled::Unknown => {
                    self.unknown_completions += 1;
                    tracing::error!(target: "kvtier::job", ?id, "the engine completed a transfer that is not in flight");
                }
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.closing && self.closes_running == 0 && self.machine.counts().in_flight == 0
    }

    fn leftover(&self) -> Leftover {
        let counts = self.machine.counts();
        Leftover {
            running_jobs: counts.running,
            queued_blocks: counts.queued,
            in_flight_blocks: counts.in_flight,
        }
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

fn deliver(deliveries: Deliveries) {
    for (sender, report) in deliveries {
        // The task may have stopped waiting: then nobody wants the report.
        let _unwanted = sender.send(report);
    }
}

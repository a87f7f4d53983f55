mod aftermath;
mod closing;
mod driver;
mod launches;
mod options;
mod shared;
mod task;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use closing::Leftover;
pub use options::TierOptions;
use shared::Shared;
pub use shared::TierStats;

use crate::job::JobName;
use crate::{
    Direction, Error, HostMemory, JobId, JobReport, KeyMapper, OffloadKey, RequestId, SubmitError,
    TransferEngine, Verdict,
};

/// How long a dropped tier lets its engine finish what is in flight.
const DROP_GRACE: Duration = Duration::from_secs(30);

/// A secondary tier: moves blocks between one [`HostMemory`] and one object store, through one engine.
///
/// There are two front doors over one completion path, and both may be in use at once:
///
/// - for a scheduler that polls: [`lookup`](Self::lookup), [`submit_store`](Self::submit_store),
///   [`submit_load`](Self::submit_load), [`take_finished`](Self::take_finished), [`end_step`](Self::end_step),
///   [`finish_request`](Self::finish_request). None of them blocks, waits for I/O or enters the engine.
/// - for tasks: [`store`](Self::store), [`load`](Self::load), [`contains`](Self::contains).
///
/// [`drain`](Self::drain) and [`shutdown`](Self::shutdown) block the calling thread, to a deadline.
///
/// # Contract
/// - From acceptance to its report, a job's slots are leased: no conflicting job is accepted.
/// - Each accepted job is reported exactly once, with one outcome per block in the caller's order, and only when nothing
///   touches its slots any more: late rather than early.
/// - A loaded block that is `Done` holds exactly the bytes of its object.
/// - Dropping the tier never waits: what is queued is cancelled; what is in flight keeps its memory alive
///   until it ends. Only [`shutdown`](Self::shutdown) promises silence.
///
/// All methods work from any thread, inside or outside a runtime. Without its runtime the tier answers
/// [`Closed`](SubmitError::Closed), and still reports what was in flight when it ends.
pub struct SecondaryTier<E: TransferEngine, K: KeyMapper> {
    shared: Arc<Shared<E, K>>,
}

impl<E: TransferEngine, K: KeyMapper> SecondaryTier<E, K> {
    /// Makes a tier and starts its driver task on the given runtime. No I/O happens: call
    /// [`probe`](Self::probe) to learn whether the store answers.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the runtime is a current-thread one (nobody would drive the tier
    /// while its owner blocks), a bound is zero, or a block is larger than the engine can move.
    pub fn new(engine: E, mapper: K, memory: Arc<HostMemory>, options: TierOptions) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(engine, mapper, memory, options)?);
        shared.runtime.spawn(driver::drive(Arc::clone(&shared)));
        Ok(Self { shared })
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.shared.engine
    }

    /// The mapper from blocks to object names.
    pub fn mapper(&self) -> &K {
        &self.shared.mapper
    }

    /// The primary tier's memory.
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.shared.memory
    }

    /// One cheap round trip that proves endpoint, bucket and credentials.
    ///
    /// # Errors
    /// Whatever the engine says is wrong; see [`TransferEngine::probe`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn probe(&self) -> Result<(), Error> {
        self.shared.engine.probe().await
    }

    /// Queues a job that copies blocks from their slots into the store. `keys[i]` goes with
    /// `slots[i]`. Never blocks; costs the caller well under a microsecond per block.
    ///
    /// The slots may be read by anybody, and be stored by several jobs, but not written, until the report.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was started and every slot is as it was.
    pub fn submit_store(&self, job: JobId, keys: Vec<OffloadKey>, slots: &[u32]) -> Result<(), SubmitError> {
        self.shared.submit(JobName::Numbered(job), Direction::Store, keys, slots)
    }

    /// Queues a job that copies blocks from the store into their slots. `keys[i]` goes with
    /// `slots[i]`. Never blocks; costs the caller well under a microsecond per block.
    ///
    /// Nobody else may touch the slots until the report. After it, the slots of blocks that are not `Done`
    /// hold unspecified bytes.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was started and every slot is as it was.
    pub fn submit_load(&self, job: JobId, keys: Vec<OffloadKey>, slots: &[u32]) -> Result<(), SubmitError> {
        self.shared.submit(JobName::Numbered(job), Direction::Load, keys, slots)
    }

    /// Cancels the queued blocks of a numbered job, which then ends when its blocks in flight do. Says whether there was
    /// such a job to cancel.
    pub fn cancel(&self, job: JobId) -> bool {
        self.shared.cancel(JobName::Numbered(job))
    }

    /// The reports of numbered jobs that have finished since the last call. Never blocks. Frees
    /// the jobs' numbers.
    pub fn take_finished(&self) -> Vec<JobReport> {
        self.shared.take_finished()
    }

    /// Whether any job is running, or a report waits to be taken.
    pub fn has_pending_work(&self) -> bool {
        self.shared.has_pending_work()
    }

    /// Whether a block is in the store, for one request. Never blocks: an unknown key is `Pending` and is asked at
    /// the next [`end_step`](Self::end_step). The request holds the answer until [`finish_request`](Self::finish_request).
    ///
    /// A finished store turns the answer into `Hit`, a failed load into `Miss`. After a shutdown every unknown key is
    /// a `Miss`.
    pub fn lookup(&self, request: RequestId, key: &OffloadKey) -> Verdict {
        self.shared.lookups.lock().lookup(request, key)
    }

    /// Ends a scheduler step: what was asked since the last one is sent. Never blocks.
    pub fn end_step(&self) {
        self.shared.end_step();
    }

    /// Ends a request: verdicts that it alone held are forgotten. Never blocks.
    pub fn finish_request(&self, request: RequestId) {
        self.shared.lookups.lock().finish_request(request);
    }

    /// A snapshot of what the tier holds.
    pub fn stats(&self) -> TierStats {
        self.shared.stats()
    }

    /// Blocks until every job accepted so far has finished and nothing touches the memory but quarantined slots, or until
    /// `timeout`. Reports stay to be taken. Jobs that others submit meanwhile are waited for, too.
    ///
    /// # Panics
    /// Inside a tokio `LocalSet`, which cannot be blocked.
    ///
    /// # Errors
    /// [`Leftover`] says what is still there at the deadline.
    pub fn drain(&self, timeout: Duration) -> Result<(), Leftover> {
        self.shared.drain(timeout)
    }

    /// Stops intake, cancels what is queued, and blocks until what is in flight has ended, or until `timeout`. After
    /// `Ok` nothing touches the memory any more, but for quarantined slots
    /// ([`TierStats::quarantined_slots`]). Reports stay to be taken. May be called again, to wait longer.
    ///
    /// An engine that can abandon what is in flight does so a little before `timeout`.
    ///
    /// # Panics
    /// Inside a tokio `LocalSet`, which cannot be blocked.
    ///
    /// # Errors
    /// [`Leftover`] says what is still in flight at the deadline; its slots stay leased until it ends.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), Leftover> {
        self.shared.begin_close(timeout);
        self.shared.wait_closed(timeout)
    }
}

impl<E: TransferEngine, K: KeyMapper> Drop for SecondaryTier<E, K> {
    fn drop(&mut self) {
        self.shared.begin_close(DROP_GRACE);
    }
}

impl<E: TransferEngine, K: KeyMapper> fmt::Debug for SecondaryTier<E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecondaryTier")
            .field("engine", &self.shared.engine)
            .field("mapper", &self.shared.mapper)
            .field("memory", &self.shared.memory)
            .field("stats", &self.shared.stats())
            .finish_non_exhaustive()
    }
}

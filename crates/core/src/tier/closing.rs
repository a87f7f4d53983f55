//! How a tier waits, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::shared::{Jobs, Shared};
use crate::time::later;
use crate::{KeyMapper, TransferEngine};

/// What was still there when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{running_jobs} jobs are still running: {queued_blocks} blocks queued, {in_flight_blocks} in flight{}",
    if *.engine_closing { "; the engine is still closing" } else { "" }
)]
pub struct Leftover {
    /// Jobs without a report.
    pub running_jobs: usize,
    /// Blocks not yet handed to the engine.
    pub queued_blocks: u32,
    /// Blocks in the engine's hands: their slots may still be touched.
    pub in_flight_blocks: u32,
    /// The engine was asked to close and has not said that it did: lookups may be on their way.
    pub engine_closing: bool,
}

/// How much earlier than the caller of a shutdown the engine's own deadline is, so that what it gives up is
/// settled in time: a tenth of the wait, at most this.
const CLOSE_MARGIN_MAX: Duration = Duration::from_millis(250);

impl Jobs {
    fn leftover(&self) -> Leftover {
        let counts = self.machine.counts();
        Leftover {
            running_jobs: counts.running,
            queued_blocks: counts.queued,
            in_flight_blocks: counts.in_flight,
            engine_closing: self.closes_running > 0,
        }
    }
}

impl<E: TransferEngine, K: KeyMapper> Shared<E, K> {
    pub(super) fn drain(&self, timeout: Duration) -> Result<(), Leftover> {
        self.wait_until(timeout, |jobs| jobs.machine.counts().running == 0)
    }

    pub(super) fn wait_closed(&self, timeout: Duration) -> Result<(), Leftover> {
        self.wait_until(timeout, Jobs::is_closed)
    }

    fn wait_until(&self, timeout: Duration, done: impl Fn(&Jobs) -> bool) -> Result<(), Leftover> {
        let deadline = later(self.now(), timeout);
        let wait = || {
            let mut jobs = self.jobs.lock();
            while !done(&jobs) {
                if self.settled.wait_until(&mut jobs, deadline).timed_out() {
                    return if done(&jobs) { Ok(()) } else { Err(jobs.leftover()) };
                }
            }
            Ok(())
        };
        // A worker thread hands its other tasks over before it waits: the driver may be one of them.
        match Handle::try_current() {
            Ok(current) if current.runtime_flavor() != RuntimeFlavor::CurrentThread => {
                tokio::task::block_in_place(wait)
            }
            _ => wait(),
        }
    }

    /// Stops intake, cancels what is queued, and has the engine closed in the background.
    pub(super) fn begin_close(self: &Arc<Self>, timeout: Duration) {
        self.stop_intake();
        self.jobs.lock().closes_running += 1;
        let deadline = later(self.now(), timeout.saturating_sub((timeout / 10).min(CLOSE_MARGIN_MAX)));
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

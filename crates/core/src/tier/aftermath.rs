use std::time::Duration;

use tokio::sync::oneshot;

use crate::job::JobName;
use crate::{Direction, JobReport, TransferId};

/// What is done about finished jobs when no lock is held: a subscriber or a waker may be slow, or call the tier.
#[derive(Default)]
pub(super) struct Aftermath {
    pub(super) deliveries: Vec<(oneshot::Sender<JobReport>, JobReport)>,
    pub(super) finished: Vec<Finished>,
    pub(super) unknown: Vec<TransferId>,
}

/// What the log says about a finished job.
pub(super) struct Finished {
    pub(super) name: JobName,
    pub(super) direction: Direction,
    pub(super) blocks: usize,
    pub(super) bytes: u64,
    pub(super) duration: Duration,
    pub(super) success: bool,
}

impl Aftermath {
    pub(super) fn run(self) {
        for Finished { name, direction, blocks, bytes, duration, success } in self.finished {
            tracing::debug!(target: "kvtier::job", ?name, %direction, blocks, bytes, ?duration, success, "job finished");
        }
        for id in self.unknown {
            tracing::error!(target: "kvtier::job", ?id, "the engine completed a transfer that is not in flight");
        }
        for (sender, report) in self.deliveries {
            // The task may have stopped waiting: then nobody wants the report.
            let _unwanted = sender.send(report);
        }
    }
}

use std::fmt;
use std::time::Duration;

use crate::{Direction, Error, LeaseError, OffloadKey};

/// A job's number, chosen by the caller; free again once its report was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.0)
    }
}

/// How one block of a job ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The whole block was moved.
    Done,
    /// There was nothing to do: the store has the block already.
    Skipped,
    /// The block was not moved. After a failed load its slot holds unspecified bytes.
    Failed(Error),
    /// The block was cancelled while it was queued. After a cancelled load its slot holds unspecified bytes:
    /// an earlier try may have failed halfway.
    Cancelled,
}

impl Outcome {
    /// Whether the block is now where the job was to bring it.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }
}

/// The end of one job, reported exactly once, when nothing touches its slots any more.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// The caller's number; `None` for a job that a task awaited.
    pub id: Option<JobId>,
    /// Which way the blocks moved.
    pub direction: Direction,
    /// The blocks, in the caller's order.
    pub keys: Vec<OffloadKey>,
    /// One outcome per block, in the same order.
    pub outcomes: Vec<Outcome>,
    /// Bytes of the blocks that were moved.
    pub bytes: u64,
    /// From the job's acceptance to its end.
    pub duration: Duration,
}

impl JobReport {
    /// Whether every block succeeded. An empty job did.
    pub fn is_success(&self) -> bool {
        self.outcomes.iter().all(Outcome::is_success)
    }

    /// Each block with its outcome, in the caller's order.
    pub fn blocks(&self) -> impl Iterator<Item = (&OffloadKey, &Outcome)> {
        self.keys.iter().zip(&self.outcomes)
    }
}

/// Why a job was not accepted. Nothing was started, and every slot is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The number belongs to a job whose report was not taken yet.
    #[error("{0} is still live: its report was not taken yet")]
    DuplicateJob(JobId),
    /// Keys and slots do not pair up.
    #[error("{keys} keys do not pair up with {slots} slots")]
    LengthMismatch {
        /// How many keys were given.
        keys: usize,
        /// How many slots were given.
        slots: usize,
    },
    /// A slot does not exist or is taken.
    #[error(transparent)]
    Slot(#[from] LeaseError),
    /// The queue has no room for that many blocks.
    #[error("{blocks} more blocks do not fit beside {queued} queued ones: the limit is {max}")]
    QueueFull {
        /// Blocks in the job.
        blocks: usize,
        /// Blocks queued now.
        queued: u32,
        /// The bound, [`TierOptions::queued_blocks_max`](crate::TierOptions::queued_blocks_max).
        max: u32,
    },
    /// The tier is shut down, or the runtime it lives on is.
    #[error("the tier is shut down")]
    Closed,
}

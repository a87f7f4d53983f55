//! Contract types of kvtier.

mod completion;
mod engine;
mod error;
pub mod job;
pub mod key;
pub mod lookup;
mod memory;
mod probe;
mod tier;
mod transfer;

pub use completion::{Answer, Completion, CompletionQueue, Posted};
pub use engine::{Capabilities, TransferEngine};
pub use error::{Error, ErrorKind, Retry};
pub use job::{JobId, JobReport, Outcome, RetryPolicy, SubmitError};
pub use key::{KeyMapper, ObjectKey, OffloadKey, ShardedKeys, VllmKeys};
pub use lookup::{RequestId, Verdict};
pub use memory::{Access, HostMemory, Lease, LeaseError, SlotLayout};
pub use probe::{Presence, Probe, ProbeId};
pub use tier::{Leftover, SecondaryTier, TierOptions, TierStats};
pub use transfer::{Direction, Transfer, TransferId};

//! Jobs: what a caller asks for, how it ends, and the state machine between.

mod limits;
mod machine;
mod report;
mod retry;

pub use limits::{JobCounts, JobLimits};
pub use machine::{Cancel, JobMachine, JobName, Launch, Settled};
pub use report::{JobId, JobReport, Outcome, SubmitError};
pub use retry::RetryPolicy;

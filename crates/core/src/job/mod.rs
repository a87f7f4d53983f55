//! Jobs: what a caller asks for, how it ends, and the state machine between.

mod machine;
mod report;
mod retry;

pub use machine::{Cancel, JobCounts, JobLimits, JobMachine, JobName, Launch, Settled};
pub use report::{JobId, JobReport, Outcome, SubmitError};
pub use retry::RetryPolicy;

//! LLM serving traces in the public Mooncake format: one JSON object a line, one line a request.
//!
//! ```json
//! {"timestamp": 3000, "input_length": 600, "output_length": 52, "hash_ids": [0, 17]}
//! ```
//!
//! `timestamp` is in milliseconds from the start of the trace, the lengths are in tokens, and each id in `hash_ids`
//! names one block of [`BLOCK_TOKENS`] input tokens *together with everything before it*: two requests that hold the
//! same id hold the same ids up to it. The format is described at
//! <https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release>.

mod error;
mod generate;
mod quantiles;
mod reader;
mod request;
mod source;
mod stats;
mod summary;

pub use error::{LineProblem, TraceError};
pub use generate::{Generator, GeneratorOptions, MAX_INPUT_TOKENS};
pub use reader::{MAX_LINE_BYTES, TraceReader};
pub use request::{BLOCK_TOKENS, Request};
pub use source::TraceSource;
pub use stats::TraceStats;
pub use summary::{Spread, TraceSummary};

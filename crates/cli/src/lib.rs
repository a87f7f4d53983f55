//! The parts of the `kvtier` command that tests, benches and fuzz targets use too.
//!
//! [`trace`] reads, generates and measures LLM serving traces:
//!
//! ```
//! use kvtier_cli::trace::{Generator, GeneratorOptions, TraceStats};
//!
//! let mut stats = TraceStats::new();
//! for request in Generator::new(GeneratorOptions { seed: 7, requests: 100 }) {
//!     stats.add(&request);
//! }
//! assert_eq!(stats.summary().requests, 100);
//! ```

pub mod trace;

//! Which requests a command works on.

use std::path::PathBuf;

use clap::{Args, value_parser};
use kvtier_cli::trace::{GeneratorOptions, TraceError, TraceSource};

/// A trace, or a generated workload.
#[derive(Args, Debug)]
pub(crate) struct WorkloadArgs {
    /// The trace to read; `-` is standard input. Without it, a workload is generated: conversations that share
    /// system prompts, with lengths and block reuse near those of a real chat service.
    pub(crate) trace: Option<PathBuf>,

    /// Seed of the generated workload; the same seed gives the same requests.
    #[arg(long, value_name = "N", default_value_t = GeneratorOptions::default().seed, conflicts_with = "trace")]
    seed: u64,

    /// Length of the generated workload; about 3.4 requests come per second.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), conflicts_with = "trace")]
    requests: Option<u64>,

    /// Stop after this many requests.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl WorkloadArgs {
    /// Opens the trace, or starts the generator, by default with this many requests.
    pub(crate) fn open(&self, requests: u64) -> Result<TraceSource, TraceError> {
        if let Some(path) = &self.trace {
            return TraceSource::open(path, self.limit);
        }
        let requests = self.requests.unwrap_or(requests).min(self.limit.unwrap_or(u64::MAX));
        Ok(TraceSource::generated(GeneratorOptions { seed: self.seed, requests }))
    }
}

//! The figures of a trace, as a table or as JSON.

use std::fmt;

use serde::Serialize;

use super::BLOCK_TOKENS;

/// The figures of a trace. `Display` is a table for people, `Serialize` the same for machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceSummary {
    /// Requests in the trace.
    pub requests: u64,
    /// From the first request to the last, in milliseconds.
    pub duration_ms: u64,
    /// `requests` over the duration; 0 if all come at once.
    pub requests_per_second: f64,
    /// Tokens in all prompts.
    pub input_tokens: u64,
    /// Tokens in all answers.
    pub output_tokens: u64,
    /// Blocks in all prompts.
    pub blocks: u64,
    /// Different blocks: what a cache that forgets nothing holds at the end.
    pub distinct_blocks: u64,
    /// Blocks that an earlier request had too.
    pub seen_blocks: u64,
    /// `seen_blocks / blocks`.
    pub seen_share: f64,
    /// Blocks that a prefix cache that forgets nothing has: seen before, and so is every block before them.
    pub prefix_blocks: u64,
    /// `prefix_blocks / blocks`.
    pub prefix_hit_ratio: f64,
    /// Tokens in those blocks, which need no computing.
    pub prefix_tokens: u64,
    /// Uses of a block behind another block than at first. Above 0, the ids do not stand for whole prefixes, and the
    /// hit figures mean little.
    pub broken_chains: u64,
    /// Tokens per prompt.
    pub input_tokens_per_request: Spread,
    /// Tokens per answer.
    pub output_tokens_per_request: Spread,
    /// Blocks per prompt.
    pub blocks_per_request: Spread,
    /// For each block that was seen before: blocks asked for since, itself included. A least-recently-used cache of
    /// that many blocks still has it.
    pub reuse_distance_blocks: Spread,
}

/// How the values of one kind are spread. The mean and the greatest are exact, the percentiles to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// One tenth of the values are not above this one.
    pub p10: u64,
    /// Half of the values are not above this one.
    pub p50: u64,
    /// Nine tenths of the values are not above this one.
    pub p90: u64,
    /// All but one hundredth of the values are not above this one.
    pub p99: u64,
    /// The greatest value.
    pub max: u64,
}

impl fmt::Display for TraceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: f64| format!("{:.1} % of all", part * 100.0);
        let seconds = format!("{}.{:03} s", self.duration_ms / 1_000, self.duration_ms % 1_000);
        let block = format!("{BLOCK_TOKENS} tokens each");
        row(f, "requests", self.requests, &format!("{:.2} per second", self.requests_per_second))?;
        row(f, "duration", seconds, "")?;
        row(f, "input tokens", self.input_tokens, "")?;
        row(f, "output tokens", self.output_tokens, "")?;
        row(f, "blocks", self.blocks, &block)?;
        row(f, "distinct blocks", self.distinct_blocks, "")?;
        row(f, "blocks seen before", self.seen_blocks, &share(self.seen_share))?;
        row(f, "blocks in a seen prefix", self.prefix_blocks, &share(self.prefix_hit_ratio))?;
        row(f, "tokens in a seen prefix", self.prefix_tokens, "")?;
        row(f, "broken prefix chains", self.broken_chains, "")?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<26}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "", "mean", "p10", "p50", "p90", "p99", "max"
        )?;
        self.input_tokens_per_request.row(f, "input tokens")?;
        self.output_tokens_per_request.row(f, "output tokens")?;
        self.blocks_per_request.row(f, "blocks")?;
        self.reuse_distance_blocks.row(f, "blocks until reused")
    }
}

impl Spread {
    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let Self { mean, p10, p50, p90, p99, max } = self;
        writeln!(f, "{name:<26}{mean:>12.1}{p10:>10}{p50:>10}{p90:>10}{p99:>10}{max:>10}")
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display, note: &str) -> fmt::Result {
    let line = format!("{name:<26}{value:>12}  {note}");
    writeln!(f, "{}", line.trim_end())
}

//! Measures a trace in one pass.

use std::collections::{HashMap, hash_map::Entry};

use hdrhistogram::Histogram;

use super::{BLOCK_TOKENS, Request, Spread, TraceSummary};

/// Collects figures over a trace, one request after the other. Memory: about 50 bytes per distinct block.
#[derive(Debug)]
pub struct TraceStats {
    requests: u64,
    first_ms: u64,
    last_ms: u64,
    input_tokens: Distribution,
    output_tokens: Distribution,
    blocks: Distribution,
    seen_blocks: u64,
    prefix_blocks: u64,
    prefix_tokens: u64,
    broken_chains: u64,
    reuse_distance: Distribution,
    known: HashMap<u64, Block>,
}

/// What is remembered of a block.
#[derive(Debug)]
struct Block {
    /// The block before it when it was first seen.
    previous: Option<u64>,
    /// How many blocks had been asked for, in all requests, when this one last was.
    last_use: u64,
}

impl TraceStats {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self {
            requests: 0,
            first_ms: 0,
            last_ms: 0,
            input_tokens: Distribution::new(),
            output_tokens: Distribution::new(),
            blocks: Distribution::new(),
            seen_blocks: 0,
            prefix_blocks: 0,
            prefix_tokens: 0,
            broken_chains: 0,
            reuse_distance: Distribution::new(),
            known: HashMap::new(),
        }
    }

    /// Counts one more request.
    pub fn add(&mut self, request: &Request) {
        if self.requests == 0 {
            self.first_ms = request.timestamp_ms;
        }
        self.requests += 1;
        self.last_ms = request.timestamp_ms;
        self.input_tokens.record(request.input_length);
        self.output_tokens.record(request.output_length);
        let prefix_blocks = self.add_blocks(&request.hash_ids);
        self.prefix_blocks += prefix_blocks;
        let prefix_tokens = prefix_blocks.saturating_mul(BLOCK_TOKENS).min(request.input_length);
        self.prefix_tokens = self.prefix_tokens.saturating_add(prefix_tokens);
    }

    /// Counts the blocks of one request; returns how many of them, from the first on, were all seen before.
    fn add_blocks(&mut self, ids: &[u64]) -> u64 {
        let mut previous = None;
        let (mut prefix_blocks, mut in_prefix) = (0, true);
        let uses_before = self.blocks.total;
        for (use_number, &id) in (uses_before..).zip(ids) {
            match self.known.entry(id) {
                Entry::Occupied(entry) => {
                    let block = entry.into_mut();
                    self.seen_blocks += 1;
                    prefix_blocks += u64::from(in_prefix);
                    self.broken_chains += u64::from(block.previous != previous);
                    self.reuse_distance.record(use_number - block.last_use);
                    block.last_use = use_number;
                }
                Entry::Vacant(entry) => {
                    in_prefix = false;
                    entry.insert(Block { previous, last_use: use_number });
                }
            }
            previous = Some(id);
        }
        self.blocks.record(ids.len() as u64);
        prefix_blocks
    }

    /// The figures so far.
    pub fn summary(&self) -> TraceSummary {
        let duration_ms = self.last_ms.saturating_sub(self.first_ms);
        TraceSummary {
            requests: self.requests,
            duration_ms,
            requests_per_second: ratio(self.requests.saturating_mul(1_000), duration_ms),
            input_tokens: self.input_tokens.total,
            output_tokens: self.output_tokens.total,
            blocks: self.blocks.total,
            distinct_blocks: self.known.len() as u64,
            seen_blocks: self.seen_blocks,
            seen_share: ratio(self.seen_blocks, self.blocks.total),
            prefix_blocks: self.prefix_blocks,
            prefix_hit_ratio: ratio(self.prefix_blocks, self.blocks.total),
            prefix_tokens: self.prefix_tokens,
            broken_chains: self.broken_chains,
            input_tokens_per_request: self.input_tokens.spread(),
            output_tokens_per_request: self.output_tokens.spread(),
            blocks_per_request: self.blocks.spread(),
            reuse_distance_blocks: self.reuse_distance.spread(),
        }
    }
}

impl Default for TraceStats {
    fn default() -> Self {
        Self::new()
    }
}

/// Larger values count as this one in percentiles: hdrhistogram never ends with values near 2^64.
const PERCENTILE_MAX: u64 = 1 << 40;

/// The values of one kind: exact sum, least and greatest, and percentiles to three digits.
#[derive(Debug)]
struct Distribution {
    histogram: Histogram<u64>,
    total: u64,
    max: u64,
}

impl Distribution {
    fn new() -> Self {
        Self {
            histogram: Histogram::new(3).expect("three significant digits are in the allowed range"),
            total: 0,
            max: 0,
        }
    }

    fn record(&mut self, value: u64) {
        let shown = value.min(PERCENTILE_MAX);
        self.histogram.record(shown).expect("the histogram grows to hold every value up to that");
        self.total = self.total.saturating_add(value);
        self.max = self.max.max(value);
    }

    fn spread(&self) -> Spread {
        let quantile = |part| self.histogram.value_at_quantile(part).min(self.max);
        Spread {
            mean: ratio(self.total, self.histogram.len()),
            p10: quantile(0.1),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.max,
        }
    }
}

/// `part / whole`, and 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "shown with at most four digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;

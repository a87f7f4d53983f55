use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::HumanBytes;
use kvtier::{Error, Outcome};
use serde::{Serialize, Serializer};

/// What was replayed, and onto what.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setup {
    /// The trace, or the generated workload with its seed.
    pub(crate) workload: String,
    pub(crate) engine: String,
    pub(crate) store: String,
    pub(crate) block_bytes: usize,
    pub(crate) memory_blocks: u32,
}

/// What a replay found. Every block of every request is served from memory, served from the store, or
/// computed.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) setup: Setup,
    /// Ctrl-C came before the end of the trace.
    pub(crate) interrupted: bool,
    #[serde(rename = "elapsed_s", serialize_with = "seconds")]
    pub(crate) elapsed: Duration,
    pub(crate) requests: u64,
    pub(crate) blocks: u64,
    pub(crate) memory_hit_blocks: u64,
    pub(crate) store_hit_blocks: u64,
    pub(crate) computed_blocks: u64,
    pub(crate) tokens: u64,
    pub(crate) tokens_not_recomputed: u64,
    pub(crate) loaded: Moved,
    pub(crate) stored: Moved,
    pub(crate) lookup: Jobs,
    /// Blocks that the engine refused because the object was not the block.
    pub(crate) corrupt_refused_blocks: u64,
    /// Blocks that were served with wrong bytes.
    pub(crate) corrupt_served_blocks: u64,
    /// How long requests waited because every slot was still being stored.
    #[serde(rename = "stalled_s", serialize_with = "seconds")]
    pub(crate) stalled: Duration,
}

/// Blocks moved one way.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Moved {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    #[serde(flatten)]
    pub(crate) jobs: Jobs,
}

/// How long jobs of one sort took, and why blocks in them failed.
#[derive(Debug, Serialize)]
pub(crate) struct Jobs {
    #[serde(rename = "latency_ms", serialize_with = "latencies")]
    pub(crate) latency: Latency,
    #[serde(rename = "failed_blocks")]
    pub(crate) failures: BTreeMap<&'static str, u64>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { latency: Latency::new(), failures: BTreeMap::new() }
    }
}

impl Moved {
    /// Counts what became of one block; says whether it was moved.
    pub(super) fn count(&mut self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Done => self.blocks += 1,
            Outcome::Skipped => {}
            Outcome::Failed(error) => self.jobs.failed(error),
            Outcome::Cancelled => self.jobs.cancelled(),
        }
        outcome.is_success()
    }
}

impl Jobs {
    pub(crate) fn failed(&mut self, error: &Error) {
        let failures = self.failures.entry(error.kind().as_str()).or_default();
        if *failures == 0 {
            tracing::warn!("first block that failed as {error}");
        }
        *failures += 1;
    }

    fn cancelled(&mut self) {
        *self.failures.entry("cancelled").or_default() += 1;
    }
}

/// Latencies in microseconds, to three digits.
#[derive(Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    fn new() -> Self {
        match Histogram::new(3) {
            Ok(histogram) => Self(histogram),
            Err(error) => unreachable!("three digits are allowed: {error}"),
        }
    }

    pub(crate) fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Err(error) = self.0.record(us) {
            unreachable!("the histogram grows as needed: {error}");
        }
    }

    fn summary(&self) -> LatencySummary {
        LatencySummary { jobs: self.0.len(), p50: self.ms(50.0), p99: self.ms(99.0), max: self.ms(100.0) }
    }

    fn ms(&self, percentile: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a job are far below 2^52")]
        let us = self.0.value_at_percentile(percentile) as f64;
        us / 1e3
    }
}

impl Report {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            interrupted: false,
            elapsed: Duration::ZERO,
            requests: 0,
            blocks: 0,
            memory_hit_blocks: 0,
            store_hit_blocks: 0,
            computed_blocks: 0,
            tokens: 0,
            tokens_not_recomputed: 0,
            loaded: Moved::default(),
            stored: Moved::default(),
            lookup: Jobs::default(),
            corrupt_refused_blocks: 0,
            corrupt_served_blocks: 0,
            stalled: Duration::ZERO,
        }
    }

    /// Blocks whose object, or whose bytes once loaded, were not what had been stored.
    pub(crate) fn corrupt_blocks(&self) -> u64 {
        self.corrupt_refused_blocks + self.corrupt_served_blocks
    }

    fn per_second(&self, bytes: u64) -> u64 {
        let rate = u128::from(bytes) * 1_000_000 / self.elapsed.as_micros().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn latencies<S: Serializer>(latency: &Latency, serializer: S) -> Result<S::Ok, S::Error> {
    latency.summary().serialize(serializer)
}

/// Latencies as reports show them, in milliseconds.
#[derive(Serialize)]
struct LatencySummary {
    jobs: u64,
    p50: f64,
    p99: f64,
    max: f64,
}

/// `part` of `whole` in percent; 0 of 0 is 0.
#[expect(clippy::cast_precision_loss, reason = "for people, to one decimal")]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { workload, engine, store, block_bytes, memory_blocks } = &self.setup;
        writeln!(
            f,
            "workload              {workload}{}",
            if self.interrupted { " (interrupted)" } else { "" }
        )?;
        writeln!(f, "store                 {store} ({engine})")?;
        let memory_bytes = u64::from(*memory_blocks) * *block_bytes as u64;
        writeln!(
            f,
            "memory                {memory_blocks} blocks of {block_bytes} bytes, {}",
            HumanBytes(memory_bytes)
        )?;
        writeln!(f, "requests              {} in {:.2} s", self.requests, self.elapsed.as_secs_f64())?;
        writeln!(f, "blocks                {}", self.blocks)?;
        for (name, blocks) in [
            ("  served from memory", self.memory_hit_blocks),
            ("  served from store", self.store_hit_blocks),
            ("  computed", self.computed_blocks),
        ] {
            writeln!(f, "{name:<22}{blocks} ({:.1} %)", percent(blocks, self.blocks))?;
        }
        let share = percent(self.tokens_not_recomputed, self.tokens);
        writeln!(
            f,
            "tokens not recomputed {} of {} ({share:.1} %)",
            self.tokens_not_recomputed, self.tokens
        )?;
        for (name, moved) in [("loaded", &self.loaded), ("stored", &self.stored)] {
            let rate = HumanBytes(self.per_second(moved.bytes));
            writeln!(
                f,
                "{name:<22}{} blocks, {} ({rate}/s over the whole run)",
                moved.blocks,
                HumanBytes(moved.bytes)
            )?;
        }
        writeln!(f, "latency in ms         {:>8} {:>10} {:>10} {:>10}", "jobs", "p50", "p99", "max")?;
        let kinds = [("load", &self.loaded.jobs), ("store", &self.stored.jobs), ("lookup", &self.lookup)];
        for (name, jobs) in kinds {
            let LatencySummary { jobs: count, p50, p99, max } = jobs.latency.summary();
            writeln!(f, "  {name:<20}{count:>8} {p50:>10.3} {p99:>10.3} {max:>10.3}")?;
        }
        writeln!(f, "waited for slots      {:.2} s", self.stalled.as_secs_f64())?;
        let failed = kinds
            .iter()
            .flat_map(|(name, jobs)| jobs.failures.iter().map(move |(kind, n)| format!("{n} {name} {kind}")));
        let failed: Vec<_> = failed.collect();
        writeln!(
            f,
            "failed blocks         {}",
            if failed.is_empty() { "none".into() } else { failed.join(", ") }
        )?;
        let (refused, served) = (self.corrupt_refused_blocks, self.corrupt_served_blocks);
        write!(f, "corrupt blocks        {} ({refused} refused, {served} served)", self.corrupt_blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies come back within their three digits, from a microsecond to an hour.
    #[test]
    fn latencies_keep_three_digits() {
        let mut latency = Latency::new();
        for took in [Duration::from_micros(1), Duration::from_millis(20), Duration::from_hours(1)] {
            latency.record(took);
        }
        for (percentile, expected_ms) in [(1.0, 0.001), (50.0, 20.0), (100.0, 3_600_000.0)] {
            let ms = latency.ms(percentile);
            assert!((ms / expected_ms - 1.0).abs() < 2e-3, "{percentile} %: {ms} ms, expected {expected_ms}");
        }
    }

    /// A report without a single block is a report, too: no division by zero, no empty table.
    #[test]
    fn an_empty_report_reads_well() {
        let setup = Setup {
            workload: "w".into(),
            engine: "e".into(),
            store: "s".into(),
            block_bytes: 1024,
            memory_blocks: 2,
        };
        let report = Report::new(setup);
        let text = report.to_string();
        assert!(text.contains("served from store   0 (0.0 %)"), "{text}");
        assert!(text.contains("failed blocks         none"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["loaded"]["latency_ms"]["jobs"], 0);
    }
}

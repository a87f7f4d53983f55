use super::*;
use crate::trace::{TraceReader, TraceStats, TraceSummary};

fn requests(seed: u64, requests: u64) -> impl Iterator<Item = Request> {
    Generator::new(GeneratorOptions { seed, requests })
}

fn summary(seed: u64, count: u64) -> TraceSummary {
    let mut stats = TraceStats::new();
    requests(seed, count).for_each(|request| stats.add(&request));
    stats.summary()
}

/// The workload as a file.
fn lines(seed: u64, count: u64) -> Vec<u8> {
    let mut lines = Vec::new();
    for request in requests(seed, count) {
        request.write_line(&mut lines).expect("memory takes it");
    }
    lines
}

/// FNV-1a, 64 bits: enough to notice any change.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A seed gives the same workload every time and everywhere; another seed gives another one. If the model is changed
/// on purpose, the number here changes with it.
#[test]
fn a_seed_is_a_workload() {
    assert_eq!(
        fingerprint(&lines(7, 1_000)),
        0xfb23_625e_0e7e_d1f1,
        "got {:#x}",
        fingerprint(&lines(7, 1_000))
    );
    assert_ne!(fingerprint(&lines(8, 1_000)), fingerprint(&lines(7, 1_000)));
}

/// A longer workload starts with the shorter one of the same seed.
#[test]
fn a_longer_workload_starts_the_same() {
    assert!(lines(7, 200).starts_with(&lines(7, 100)));
}

/// As many requests as asked for, none included.
#[test]
fn number_of_requests() {
    for count in [0, 1, 99] {
        assert_eq!(requests(1, count).count() as u64, count);
    }
}

/// The reader takes every generated line: sorted by time, as many blocks as the tokens need, none twice.
#[test]
fn generated_lines_are_good() {
    for seed in 0..20 {
        let lines = lines(seed, 500);
        let read: Result<Vec<Request>, _> = TraceReader::new(lines.as_slice(), "generated").collect();
        let read = read.unwrap_or_else(|error| panic!("kvtier trace --seed {seed}: {error}"));
        assert!(read.iter().eq(requests(seed, 500).collect::<Vec<_>>().iter()), "seed {seed}");
    }
}

/// A block id implies its whole prefix, all requests start with block 0, and ids count up as they appear.
#[test]
fn a_block_implies_its_prefix() {
    for seed in 0..20 {
        let mut prefixes: Vec<Vec<u64>> = Vec::new();
        for request in requests(seed, 500) {
            assert_eq!(request.hash_ids[0], 0, "kvtier trace --seed {seed}");
            for (place, &id) in request.hash_ids.iter().enumerate() {
                let prefix = &request.hash_ids[..place];
                if let Some(known) = prefixes.get(usize::try_from(id).expect("a small id")) {
                    assert_eq!(known, prefix, "block {id}: kvtier trace --seed {seed}");
                } else {
                    assert_eq!(id, prefixes.len() as u64, "kvtier trace --seed {seed}");
                    prefixes.push(prefix.to_vec());
                }
            }
        }
    }
}

/// Prompts stay between the shortest system prompt and the longest context.
#[test]
fn lengths_stay_in_range() {
    for request in requests(3, 12_000) {
        assert!((880..=MAX_INPUT_TOKENS).contains(&request.input_length), "{request:?}, seed 3");
        assert!((1..2_000).contains(&request.output_length), "{request:?}, seed 3");
    }
}

/// An hour of it is near the real hour: 12,031 requests at 3.40 per second; prompts of 12,035 tokens on average,
/// 6,909 at the median and 27,367 at the 90th percentile; answers of 343 and 350; 24.0 blocks per request, 36.6 % of
/// them seen before.
#[test]
fn an_hour_is_near_the_real_hour() {
    for seed in 1..=3 {
        let hour = summary(seed, 12_031);
        let near = |name: &str, value: f64, real: f64, part: f64| {
            let range = real * (1.0 - part)..real * (1.0 + part);
            assert!(range.contains(&value), "{name} is {value}, really {real}: kvtier trace --seed {seed}");
        };
        let float = |value: u64| f64::from(u32::try_from(value).expect("a small number"));
        let (input, output) = (hour.input_tokens_per_request, hour.output_tokens_per_request);
        near("rate", hour.requests_per_second, 3.40, 0.05);
        near("mean input", input.mean, 12_035.0, 0.05);
        near("median input", float(input.p50), 6_909.0, 0.12);
        near("90th percentile of input", float(input.p90), 27_367.0, 0.10);
        near("mean output", output.mean, 342.6, 0.03);
        near("median output", float(output.p50), 350.0, 0.03);
        near("blocks", hour.blocks_per_request.mean, 24.0, 0.05);
        near("distinct blocks", float(hour.distinct_blocks), 182_790.0, 0.05);
        near("share seen before", hour.seen_share, 0.366, 0.05);
        assert_eq!(hour.seen_blocks, hour.prefix_blocks);
        assert_eq!(hour.broken_chains, 0);
    }
}

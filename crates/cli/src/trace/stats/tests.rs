use super::*;

fn summary(requests: &[(u64, u64, u64, &[u64])]) -> TraceSummary {
    let mut stats = TraceStats::new();
    for &(timestamp_ms, input_length, output_length, ids) in requests {
        stats.add(&Request { timestamp_ms, input_length, output_length, hash_ids: ids.to_vec() });
    }
    stats.summary()
}

/// Every figure of a trace that is small enough to count by hand.
#[test]
fn figures_counted_by_hand() {
    let summary = summary(&[
        (1_000, 1_100, 10, &[0, 1, 2]),
        (1_500, 1_300, 20, &[0, 1, 3]),
        (3_000, 600, 30, &[0, 4]),
        (5_000, 1_100, 0, &[0, 1, 2]),
    ]);
    assert_eq!((summary.requests, summary.duration_ms), (4, 4_000));
    assert!((summary.requests_per_second - 1.0).abs() < 1e-9);
    assert_eq!((summary.input_tokens, summary.output_tokens), (4_100, 60));
    assert_eq!((summary.blocks, summary.distinct_blocks), (11, 5));
    assert_eq!((summary.seen_blocks, summary.prefix_blocks, summary.broken_chains), (6, 6, 0));
    assert!((summary.prefix_hit_ratio - 6.0 / 11.0).abs() < 1e-9);
    // Two full blocks, one full block, and the whole of the repeated prompt with its part-filled block.
    assert_eq!(summary.prefix_tokens, 1_024 + 512 + 1_100);
    let Spread { mean, p50, p90, max, .. } = summary.input_tokens_per_request;
    assert!((mean - 1_025.0).abs() < 1e-9);
    assert_eq!((p50, p90, max), (1_100, 1_300, 1_300));
    // Uses: 0 1 2 | 0 1 3 | 0 4 | 0 1 2. Block 0 comes back after 3, 3 and 2, block 1 after 3 and 5, block 2 after 8.
    let Spread { mean, p10, p50, max, .. } = summary.reuse_distance_blocks;
    assert!((mean - 24.0 / 6.0).abs() < 1e-9);
    assert_eq!((p10, p50, max), (2, 3, 8));
}

/// A block behind another block than before is no prefix hit if the one before it is new, and is reported.
#[test]
fn a_broken_chain_is_counted() {
    let summary = summary(&[(0, 1_024, 1, &[0, 1]), (0, 1_024, 1, &[2, 1]), (0, 512, 1, &[1])]);
    assert_eq!((summary.seen_blocks, summary.prefix_blocks, summary.broken_chains), (2, 1, 2));
}

/// Nothing divided by nothing is shown as 0.
#[test]
fn no_requests() {
    let summary = summary(&[]);
    assert_eq!((summary.requests, summary.blocks, summary.distinct_blocks), (0, 0, 0));
    assert!(summary.to_string().contains("0.0 % of all"));
    let json = serde_json::to_string(&summary).expect("plain data");
    assert!(json.contains(r#""requests_per_second":0.0"#), "{json}");
}

/// The largest numbers that a line can hold neither overflow nor are refused.
#[test]
fn largest_numbers() {
    let summary = summary(&[(0, 1, u64::MAX, &[u64::MAX]), (u64::MAX, 1, u64::MAX, &[u64::MAX])]);
    assert_eq!(summary.output_tokens, u64::MAX);
    assert_eq!(summary.output_tokens_per_request.max, u64::MAX);
    assert_eq!(summary.duration_ms, u64::MAX);
}

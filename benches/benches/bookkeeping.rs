//! What the tier itself costs its caller: time and memory per block, with an engine that moves no bytes.
//!
//! `cargo bench -p kvtier-benches --bench bookkeeping`
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::alloc::System;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kvtier_core::key::VllmNamespace;
use kvtier_core::{
    HostMemory, JobId, KeyMapper, OffloadKey, RequestId, SecondaryTier, ShardedKeys, TierOptions, Verdict,
    VllmKeys,
};
use kvtier_engine_mock::{MockEngine, MockStore};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Blocks that a caller queues at once.
const QUEUED: [u32; 2] = [1_000, 1_000_000];
/// Blocks of one job: a long prompt's.
const JOB_BLOCKS: u32 = 1_000;
const PATIENCE: Duration = Duration::from_mins(1);

type Tier = SecondaryTier<MockEngine, ShardedKeys>;

fn tier(runtime: &Runtime, engine: MockEngine, slots: u32) -> Tier {
    let memory = HostMemory::allocate(1, slots).unwrap();
    let options = TierOptions::new(runtime.handle().clone());
    SecondaryTier::new(engine, ShardedKeys::new("kv").unwrap(), memory, options).unwrap()
}

fn key(n: u64) -> OffloadKey {
    let mut hash = [0x5A; 32];
    hash[..8].copy_from_slice(&n.to_be_bytes());
    OffloadKey::new(&hash, 0).unwrap()
}

/// Jobs of [`JOB_BLOCKS`] blocks each, as a caller has them ready.
fn jobs(blocks: u32) -> Vec<(JobId, Vec<OffloadKey>, Vec<u32>)> {
    let job = |n: u32| {
        let slots: Vec<_> = (n * JOB_BLOCKS..(n + 1) * JOB_BLOCKS).collect();
        (JobId(n.into()), slots.iter().map(|slot| key((*slot).into())).collect(), slots)
    };
    (0..blocks / JOB_BLOCKS).map(job).collect()
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed(), value)
}

/// What the caller's thread spends on submitting blocks and taking their reports. The wait between is the engine's.
fn submit_and_settle(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("submit+settle, caller's time");
    group.sample_size(10);
    for blocks in QUEUED {
        let tier = tier(&runtime, MockEngine::discard(&MockStore::default()), blocks);
        group.throughput(Throughput::Elements(blocks.into()));
        group.bench_function(BenchmarkId::from_parameter(blocks), |bencher| {
            bencher.iter_custom(|rounds| {
                let round = |_| {
                    let jobs = jobs(blocks);
                    let (submitted, ()) = timed(|| {
                        for (id, keys, slots) in jobs {
                            tier.submit_store(id, keys, &slots).unwrap();
                        }
                    });
                    tier.drain(PATIENCE).unwrap();
                    let (settled, reports) = timed(|| tier.take_finished());
                    assert!(reports.iter().all(kvtier_core::JobReport::is_success));
                    submitted + settled
                };
                (0..rounds).map(round).sum()
            });
        });
    }
    group.finish();
}

/// Heap bytes that the tier keeps for each block that is queued or in flight, keys included.
fn bytes_per_block(_: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    for blocks in QUEUED {
        let tier = tier(&runtime, MockEngine::manual(&MockStore::default()), blocks);
        let jobs = jobs(blocks);
        let before = Region::new(ALLOCATOR);
        // The caller's keys move into the tier: they count as the tier's from here on.
        let keys_bytes = blocks as usize * size_of::<OffloadKey>();
        for (id, keys, slots) in jobs {
            tier.submit_store(id, keys, &slots).unwrap();
            drop(slots);
        }
        let change = before.change();
        let slots_bytes = blocks as usize * size_of::<u32>();
        let kept = change.bytes_allocated + keys_bytes + slots_bytes - change.bytes_deallocated;
        println!("bookkeeping of {blocks} queued blocks: {} bytes per block", kept / blocks as usize);
        let _left = tier.shutdown(Duration::ZERO);
    }
}

/// A known key, beside a bare `HashMap` lookup of the same keys in the same run.
fn lookup(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("lookup of a known key");
    for entries in [1_000_u64, 100_000] {
        let store = MockStore::default();
        let tier = tier(&runtime, MockEngine::immediate(&store), 1);
        let request = RequestId(1);
        let keys: Vec<_> = (0..entries).map(key).collect();
        for key in &keys {
            tier.lookup(request, key);
        }
        tier.end_step();
        while keys.iter().any(|key| tier.lookup(request, key) == Verdict::Pending) {
            std::thread::yield_now();
        }
        let twin: HashMap<_, _> = keys.iter().map(|key| (*key, Verdict::Miss)).collect();
        let mut next = keys.iter().cycle();
        group.bench_function(BenchmarkId::new("tier", entries), |bencher| {
            bencher.iter(|| next.next().map(|key| tier.lookup(request, black_box(key))));
        });
        group.bench_function(BenchmarkId::new("HashMap", entries), |bencher| {
            bencher.iter(|| next.next().map(|key| twin.get(black_box(key)).copied()));
        });
    }
    group.finish();
}

fn object_key(criterion: &mut Criterion) {
    let vllm: Arc<dyn KeyMapper> =
        Arc::new(VllmKeys::new(&VllmNamespace::new("meta-llama/Llama-3.1-8B-Instruct", "bfloat16")).unwrap());
    let sharded: Arc<dyn KeyMapper> = Arc::new(ShardedKeys::new("kv").unwrap());
    let mut group = criterion.benchmark_group("object_key");
    for (name, mapper) in [("VllmKeys", vllm), ("ShardedKeys", sharded)] {
        let key = key(7);
        group.bench_function(name, |bencher| bencher.iter(|| mapper.object_key(black_box(&key))));
    }
    group.finish();
}

criterion_group!(benches, bytes_per_block, submit_and_settle, lookup, object_key);
criterion_main!(benches);

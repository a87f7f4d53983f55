//! The object_store engine under the tier, beside the bare `object_store` client doing the same work in the same run.
//!
//! `cargo bench -p kvtier-benches --bench transfers` prints, for each block size and window, both throughputs and their
//! ratio: interleaved rounds against one null server, the median of the rounds' ratios, and their spread. Add part of a row's
//! name to run that row alone.
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kvtier_core::{Access, HostMemory, KeyMapper, OffloadKey, SecondaryTier, ShardedKeys, TierOptions};
use kvtier_engine_object_store::{ObjectStoreEngine, StoreConfig};
use kvtier_testkit::{NullOptions, NullServer};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStoreExt, RetryConfig};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const BLOCK_BYTES: [usize; 3] = [64 << 10, 1 << 20, 4 << 20];
const IN_FLIGHT: [usize; 2] = [16, 64];
/// Bytes that one side moves in one round.
const ROUND_BYTES: usize = 128 << 20;
/// Odd, so that the median is one of them.
const ROUNDS: usize = 9;

#[derive(Clone, Copy)]
enum Work {
    Put,
    Get,
}

/// Both sides of one row, ready to move the same blocks through the same window.
struct Row {
    block_bytes: usize,
    in_flight: usize,
    keys: Vec<OffloadKey>,
    slots: Vec<u32>,
    tier: SecondaryTier<ObjectStoreEngine, ShardedKeys>,
    bare: Arc<AmazonS3>,
    paths: Arc<Vec<Path>>,
    /// What the bare client stores: as much memory as the tier's slots, or its hashing would run from the cache.
    bodies: Arc<Vec<Bytes>>,
}

impl Row {
    fn new(runtime: &Runtime, endpoint: &str, block_bytes: usize, in_flight: usize) -> Self {
        let blocks = (ROUND_BYTES / block_bytes).max(2 * in_flight);
        let keys: Vec<_> =
            (0..blocks).map(|n| OffloadKey::new(&(n as u64).to_be_bytes().repeat(4), 0).unwrap()).collect();
        let pairs = ["bucket=bench", &format!("endpoint={endpoint}"), "access_key=a", "secret_key=b"];
        let config = StoreConfig::from_pairs(
            pairs.iter().map(ToString::to_string).chain([format!("concurrency={in_flight}")]),
        );
        let engine = ObjectStoreEngine::s3(&config.unwrap(), runtime.handle().clone()).unwrap();
        let mapper = ShardedKeys::new("kv").unwrap();
        let paths = keys.iter().map(|key| Path::parse(mapper.object_key(key).as_str()).unwrap()).collect();
        let memory = HostMemory::allocate(block_bytes, u32::try_from(blocks).unwrap()).unwrap();
        for slot in 0..u32::try_from(blocks).unwrap() {
            // Untouched pages would all be the one page of zeros.
            memory.lease(slot, Access::Write).unwrap().copy_in(0, &vec![7; block_bytes]);
        }
        let tier =
            SecondaryTier::new(engine, mapper, memory, TierOptions::new(runtime.handle().clone())).unwrap();
        let bare = AmazonS3Builder::new()
            .with_bucket_name("bench")
            .with_endpoint(endpoint)
            .with_allow_http(true)
            .with_access_key_id("a")
            .with_secret_access_key("b")
            .with_region("us-east-1")
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap();
        Self {
            block_bytes,
            in_flight,
            slots: (0..u32::try_from(blocks).unwrap()).collect(),
            keys,
            tier,
            bare: Arc::new(bare),
            paths: Arc::new(paths),
            bodies: Arc::new((0..blocks).map(|_| Bytes::from(vec![7; block_bytes])).collect()),
        }
    }

    async fn with_tier(&self, work: Work) {
        let keys = self.keys.clone();
        let report = match work {
            Work::Put => self.tier.store(keys, &self.slots).await,
            Work::Get => self.tier.load(keys, &self.slots).await,
        };
        assert!(report.unwrap().is_success());
    }

    /// As many tasks as the window is wide, each taking the next block until there is none.
    async fn with_bare_client(&self, work: Work) {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..self.in_flight {
            let (bare, paths, next) = (Arc::clone(&self.bare), Arc::clone(&self.paths), Arc::clone(&next));
            let (bodies, block_bytes) = (Arc::clone(&self.bodies), self.block_bytes);
            tasks.spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = paths.get(n) else { break };
                    match work {
                        Work::Put => drop(bare.put(path, bodies[n].clone().into()).await.unwrap()),
                        Work::Get => {
                            let object = bare.get(path).await.unwrap().bytes().await.unwrap();
                            assert_eq!(object.len(), block_bytes);
                        }
                    }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    }

    fn gigabytes_per_second(&self, took: Duration) -> f64 {
        (self.keys.len() * self.block_bytes) as f64 / took.as_secs_f64() / 1e9
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
async fn timed(work: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(runtime: &Runtime, row: &Row, work: Work, name: &str) {
    let (mut tier, mut bare, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (of_tier, of_bare) = runtime.block_on(async {
            // In turn the one and the other goes first: what drifts hits both.
            if round % 2 == 0 {
                let of_tier = timed(row.with_tier(work)).await;
                (of_tier, timed(row.with_bare_client(work)).await)
            } else {
                let of_bare = timed(row.with_bare_client(work)).await;
                (timed(row.with_tier(work)).await, of_bare)
            }
        });
        // The first round opens the connections.
        if round > 0 {
            tier.push(row.gigabytes_per_second(of_tier));
            bare.push(row.gigabytes_per_second(of_bare));
            ratio.push(of_bare.as_secs_f64() / of_tier.as_secs_f64());
        }
    }
    let middle = median(&mut ratio);
    println!(
        "{name:<32} kvtier {:>6.3} GB/s   bare client {:>6.3} GB/s   ratio {middle:.2} ({:.2} to {:.2})",
        median(&mut tier),
        median(&mut bare),
        ratio[0],
        ratio[ROUNDS - 1],
    );
}

fn main() {
    // `cargo test` runs benches, too, only to see that they work.
    let args: Vec<_> = std::env::args().skip(1).collect();
    let only_check = !args.iter().any(|arg| arg == "--bench");
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    rustls::crypto::ring::default_provider().install_default().unwrap();

    let runtime = Runtime::new().unwrap();
    for block_bytes in BLOCK_BYTES {
        let server =
            NullServer::start_on_thread(&NullOptions { block_bytes, ..NullOptions::default() }).unwrap();
        for in_flight in IN_FLIGHT {
            for (work, verb) in [(Work::Put, "PUT"), (Work::Get, "GET")] {
                let name = format!("{verb} {} KiB, {in_flight} in flight", block_bytes >> 10);
                if !name.contains(&filter) {
                    continue;
                }
                let row = Row::new(&runtime, server.endpoint(), block_bytes, in_flight);
                if only_check {
                    runtime.block_on(row.with_tier(work));
                } else {
                    compare(&runtime, &row, work, &name);
                }
            }
        }
    }
}

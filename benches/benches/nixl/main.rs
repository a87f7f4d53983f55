//! The NIXL engine under the tier, beside a client of NIXL's C API that posts one request for the whole job, as vLLM does, in
//! the same run, on the same library, with the same threads.
//!
//! `cargo bench -p kvtier-engine-nixl --bench nixl` prints, for each block size and direction, both throughputs, both
//! costs in CPU seconds per GB, and the ratios: interleaved rounds against one null server in a process of its own, the
//! median of the rounds' ratios, and their spread; then what a submit costs the caller's thread.
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

mod whole_job;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvtier_core::{
    Access, Direction, HostMemory, JobId, KeyMapper, OffloadKey, SecondaryTier, ShardedKeys, TierOptions,
};
use kvtier_engine_nixl::{NixlEngine, StoreConfig};
use kvtier_testkit::{NullOptions, NullServer};
use tokio::runtime::Runtime;
use whole_job::WholeJob;

const BLOCK_BYTES: [usize; 2] = [64 << 10, 1 << 20];
const THREADS: u32 = 16;
/// Bytes that one side moves in one round.
const ROUND_BYTES: usize = 192 << 20;
/// Odd, so that the median is one of them.
const ROUNDS: usize = 9;

/// The null server, in a process of its own so that its CPU time is not ours.
struct Server {
    process: Child,
    endpoint: String,
}

impl Server {
    fn start(block_bytes: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(format!("--serve={block_bytes}")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut endpoint = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut endpoint).unwrap();
        Self { process, endpoint: endpoint.trim().to_owned() }
    }

    /// What the process itself does: serves until nobody holds its standard input any more.
    fn serve(block_bytes: usize) {
        let server =
            NullServer::start_on_thread(&NullOptions { block_bytes, ..NullOptions::default() }).unwrap();
        println!("{}", server.endpoint());
        std::io::stdout().flush().unwrap();
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Both sides, ready to move the same blocks from and to the same memory.
struct Row {
    keys: Vec<OffloadKey>,
    slots: Vec<u32>,
    block_bytes: usize,
    tier: SecondaryTier<NixlEngine, ShardedKeys>,
    whole_job: WholeJob,
}

impl Row {
    fn new(runtime: &Runtime, endpoint: &str, block_bytes: usize, round_bytes: usize) -> Self {
        let blocks = u32::try_from(round_bytes / block_bytes).unwrap();
        let keys: Vec<_> =
            (0..u64::from(blocks)).map(|n| OffloadKey::new(&n.to_be_bytes().repeat(4), 0).unwrap()).collect();
        let pairs = [
            "bucket=bench".to_owned(),
            format!("endpoint={endpoint}"),
            "access_key=a".to_owned(),
            "secret_key=b".to_owned(),
            format!("num_threads={THREADS}"),
        ];
        let engine = NixlEngine::s3(&StoreConfig::from_pairs(pairs).unwrap()).unwrap();
        let mapper = ShardedKeys::new("kv").unwrap();
        let names = keys.iter().map(|key| mapper.object_key(key)).collect();
        let memory = HostMemory::allocate(block_bytes, blocks).unwrap();
        for slot in 0..blocks {
            // Untouched pages would all be the one page of zeros.
            memory.lease(slot, Access::Write).unwrap().copy_in(0, &vec![7; block_bytes]);
        }
        let whole_job = WholeJob::new(endpoint, THREADS, &memory, names);
        let tier = SecondaryTier::new(engine, mapper, memory, TierOptions::new(runtime.handle().clone()));
        Self { keys, slots: (0..blocks).collect(), block_bytes, tier: tier.unwrap(), whole_job }
    }

    fn with_tier(&self, runtime: &Runtime, direction: Direction) {
        let keys = self.keys.clone();
        let report = runtime.block_on(async {
            match direction {
                Direction::Store => self.tier.store(keys, &self.slots).await,
                Direction::Load => self.tier.load(keys, &self.slots).await,
            }
        });
        assert!(report.unwrap().is_success());
    }

    fn gigabytes(&self) -> f64 {
        (self.keys.len() * self.block_bytes) as f64 / 1e9
    }

    /// Seconds of the caller's thread for each block of a job of 1,024.
    fn submit_cost(&self, job: u64) -> f64 {
        let count = self.keys.len().min(1024);
        let (keys, slots) = (self.keys[..count].to_vec(), &self.slots[..count]);
        let start = now();
        self.tier.submit_load(JobId(job), keys, slots).unwrap();
        let took = start.elapsed();
        self.tier.drain(Duration::from_mins(1)).unwrap();
        assert_eq!(self.tier.take_finished().len(), 1);
        took.as_secs_f64() / count as f64
    }
}

/// Wall and CPU seconds.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

fn measured(work: impl FnOnce()) -> Cost {
    let (cpu, start) = (cpu_seconds(), now());
    work();
    Cost { wall: start.elapsed().as_secs_f64(), cpu: cpu_seconds() - cpu }
}

/// CPU time of all threads of this process, from the kernel's counters of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<_> = after_name.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(runtime: &Runtime, row: &Row, direction: Direction, name: &str) {
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        // In turn the one and the other goes first: what drifts hits both.
        let (tier, whole) = if round % 2 == 0 {
            let tier = measured(|| row.with_tier(runtime, direction));
            (tier, measured(|| row.whole_job.run(direction)))
        } else {
            let whole = measured(|| row.whole_job.run(direction));
            (measured(|| row.with_tier(runtime, direction)), whole)
        };
        // The first round opens the connections.
        if round > 0 {
            rounds.push((tier, whole));
        }
    }
    let gigabytes = row.gigabytes();
    let of = |figure: &dyn Fn(&(Cost, Cost)) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
    let mut speed = of(&|(tier, whole)| whole.wall / tier.wall);
    let mut cpu = of(&|(tier, whole)| tier.cpu / whole.cpu);
    let (speed_median, cpu_median) = (median(&mut speed), median(&mut cpu));
    println!(
        "{name:<16} kvtier {:.3} GB/s {:.2} CPU-s/GB   whole job {:.3} GB/s {:.2} CPU-s/GB   speed {speed_median:.2} \
         ({:.2} to {:.2})   CPU {cpu_median:.2} ({:.2} to {:.2})",
        gigabytes / median(&mut of(&|(tier, _)| tier.wall)),
        median(&mut of(&|(tier, _)| tier.cpu)) / gigabytes,
        gigabytes / median(&mut of(&|(_, whole)| whole.wall)),
        median(&mut of(&|(_, whole)| whole.cpu)) / gigabytes,
        speed[0],
        speed[ROUNDS - 1],
        cpu[0],
        cpu[ROUNDS - 1],
    );
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let Some(bytes) = args.iter().find_map(|arg| arg.strip_prefix("--serve=")) {
        return Server::serve(bytes.parse().unwrap());
    }
    // `cargo test` runs benches, too, only to see that they work.
    let only_check = !args.iter().any(|arg| arg == "--bench");
    let runtime = Arc::new(Runtime::new().unwrap());
    for block_bytes in BLOCK_BYTES {
        let server = Server::start(block_bytes);
        let round_bytes = if only_check { 16 * block_bytes } else { ROUND_BYTES };
        let row = Row::new(&runtime, &server.endpoint, block_bytes, round_bytes);
        for direction in [Direction::Store, Direction::Load] {
            if only_check {
                row.with_tier(&runtime, direction);
                row.whole_job.run(direction);
            } else {
                compare(&runtime, &row, direction, &format!("{direction} {} KiB", block_bytes >> 10));
            }
        }
        let rounds = if only_check { 1 } else { ROUNDS as u64 };
        let mut costs: Vec<_> = (0..rounds).map(|job| row.submit_cost(job)).collect();
        println!("submit: {:.0} ns per block on the caller's thread", median(&mut costs) * 1e9);
        row.tier.shutdown(Duration::from_mins(1)).unwrap();
    }
}

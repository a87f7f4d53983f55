//! `kvtier replay`: a trace through a primary tier in memory and a real secondary tier.

use std::{
    error::Error,
    io::{self, Write},
    num::{NonZeroU32, NonZeroUsize},
    path::Path,
    process::ExitCode,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kvtier::{HostMemory, SecondaryTier, ShardedKeys, TierOptions, TierRuntime};
use kvtier_cli::trace::{Request, TraceError, TraceSource};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{CommandResult, output, stop::stop_signal, store::StoreArgs, workload::WorkloadArgs};
use crate::replay::{Report, Runner, Setup, Tier};

/// How long the shutdown may take after the last request was served and stored.
const FINISH_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the stores in the background, and then the shutdown, may take after Ctrl-C.
const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time between the first request and another, so that no timestamp overflows the clock.
const PAUSE_MAX: Duration = Duration::from_hours(24 * 365);
/// Requests that are read ahead.
const READ_AHEAD_REQUESTS: usize = 64;
/// Length of the generated workload: about 830 MiB of blocks of the default size.
const GENERATED_REQUESTS: u64 = 600;
/// Where blocks go without `--store`.
const DEFAULT_FOLDER: &str = "kvtier-replay-store";

const EXAMPLES: &str = "\
Examples:
  kvtier replay                                         a generated workload, onto ./kvtier-replay-store
  kvtier replay conversation_trace.jsonl --limit 300    the first 300 requests of a trace
  kvtier replay --memory-blocks 64 --store memory://    a small memory, and a store in this process
  kvtier replay --store s3://bucket/prefix --endpoint http://127.0.0.1:9000 \\
      --store-config access_key=KEY --store-config secret_key=SECRET

A second run over the same store finds every block there. Blocks are told apart by the trace's file name (or the
seed) and by their size, so others are left alone.

Exit codes: 0 no block was corrupt, 1 one was, 2 wrong usage, bad input, or a store that does not answer at the start.
Blocks that fail on the way are counted and computed, like those that the store does not have.";

/// Serve a trace through a small memory and a real store, and check every block.
///
/// For each request the longest prefix is taken from memory, then from the store; the rest is computed, which
/// here means made up from the block's key, so that every block that comes back from the store is checked byte for
/// byte. New blocks are stored in the background.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    #[command(flatten)]
    store: StoreArgs,

    /// Size of one block.
    #[arg(long, value_name = "BYTES", default_value = "65536")]
    block_bytes: NonZeroUsize,

    /// Size of the memory, in blocks.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = memory_blocks)]
    memory_blocks: NonZeroU32,

    /// How fast requests come: `max`, or a multiple of the trace's own time.
    #[arg(long, value_name = "N|max", default_value = "max")]
    speed: Speed,

    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Most blocks of the memory; each takes some bytes besides its own.
const MEMORY_BLOCKS_MAX: u32 = 1 << 24;

fn memory_blocks(text: &str) -> Result<NonZeroU32, String> {
    let blocks = text.parse().ok().filter(|blocks: &NonZeroU32| blocks.get() <= MEMORY_BLOCKS_MAX);
    blocks.ok_or_else(|| format!("a number from 1 to {MEMORY_BLOCKS_MAX} is expected"))
}

/// How fast requests come.
#[derive(Clone, Copy, Debug)]
enum Speed {
    Max,
    Times(f64),
}

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "max" => Ok(Self::Max),
            Ok(times) if times > 0.0 && f64::is_finite(times) => Ok(Self::Times(times)),
            _ => Err("`max` or a number above 0 is expected"),
        }
    }
}

impl Speed {
    /// How long after the first request this one comes; `None` for at once.
    fn due(self, request: &Request, first_ms: u64) -> Option<Duration> {
        let Self::Times(times) = self else { return None };
        let after =
            Duration::from_millis(request.timestamp_ms.saturating_sub(first_ms)).as_secs_f64() / times;
        Some(Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX).min(PAUSE_MAX))
    }
}

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs, quiet: bool) -> CommandResult {
    let source = args.workload.open(GENERATED_REQUESTS)?;
    let runtime = TierRuntime::new()?;
    let (tier, setup) = open_tier(args, &source, runtime.handle())?;
    let report = runtime.handle().block_on(async {
        tier.probe().await?;
        let report = replay(args, source, Arc::clone(&tier), setup, quiet).await;
        let interrupted = report.as_ref().is_ok_and(|report| report.interrupted);
        let patience = if interrupted { INTERRUPTED_TIMEOUT } else { FINISH_TIMEOUT };
        let closed = tier.shutdown(patience);
        if let Err(left) = closed {
            // The report stands: what is left moves no block that it counts.
            tracing::warn!("the tier did not close in time: {left}");
        }
        report
    })?;
    output::print(&if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        format!("{report}\n")
    })?;
    Ok(if report.corrupt_blocks() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open_tier(
    args: &ReplayArgs,
    source: &TraceSource,
    runtime: &Handle,
) -> Result<(Arc<Tier>, Setup), Box<dyn Error>> {
    let store = args.store.open(Path::new(DEFAULT_FOLDER), runtime)?;
    let setup = Setup {
        workload: source.description().to_owned(),
        engine: store.engine.capabilities().name.clone(),
        store: store.url,
        block_bytes: args.block_bytes.get(),
        memory_blocks: args.memory_blocks.get(),
    };
    // Objects of another block size would be refused as corrupt.
    let namespace = format!("kvtier-replay/{}", setup.block_bytes);
    let prefix = if store.prefix.is_empty() { namespace } else { format!("{}/{namespace}", store.prefix) };
    let memory = HostMemory::allocate(setup.block_bytes, setup.memory_blocks)?;
    let options = TierOptions::new(runtime.clone());
    let tier = SecondaryTier::new(store.engine, ShardedKeys::new(&prefix)?, memory, options)?;
    Ok((Arc::new(tier), setup))
}

type NextRequest = (Result<Request, TraceError>, Option<(u64, u64)>);

/// Reads the requests, each with the progress then, on a thread of its own: a silent pipe must not keep Ctrl-C from
/// being heard. The thread ends with the source, with the receiver, or with the process.
fn read_ahead(mut source: TraceSource) -> mpsc::Receiver<NextRequest> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD_REQUESTS);
    std::thread::spawn(move || {
        while let Some(request) = source.next() {
            if sender.blocking_send((request, source.progress())).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Serves the requests until the trace ends or Ctrl-C comes.
async fn replay(
    args: &ReplayArgs,
    source: TraceSource,
    tier: Arc<Tier>,
    setup: Setup,
    quiet: bool,
) -> Result<Report, Box<dyn Error>> {
    let notice = format!("{}, onto {}", setup.workload, setup.store);
    let mut runner = Runner::new(tier, args.memory_blocks, Report::new(setup))?;
    let bar = progress_bar(quiet);
    let mut requests = read_ahead(source);
    let start = Instant::now();
    let serve_all = async {
        if !quiet {
            // A courtesy: a closed standard error does not stop the run.
            let _ = writeln!(io::stderr(), "{notice}");
        }
        let mut first_ms = None;
        while let Some((request, progress)) = requests.recv().await {
            let request = request?;
            let first_ms = *first_ms.get_or_insert(request.timestamp_ms);
            if let Some(due) = args.speed.due(&request, first_ms) {
                sleep_until(start + due).await;
            }
            runner.serve(&request).await?;
            if let Some((done, total)) = progress {
                bar.set_length(total);
                bar.set_position(done);
            }
        }
        runner.finish_stores().await
    };
    let interrupted = tokio::select! {
        // The first poll catches the signal from here on, before anything is said or done.
        biased;
        interrupt = stop_signal() => {
            interrupt?;
            true
        }
        served = serve_all => {
            served?;
            false
        }
    };
    bar.finish_and_clear();
    if interrupted {
        // What is not stored by then is dropped with the runner, and cancelled.
        if let Ok(finished) = timeout(INTERRUPTED_TIMEOUT, runner.finish_stores()).await {
            finished?;
        }
    }
    Ok(runner.into_report(start.elapsed(), interrupted))
}

/// Requests, or bytes of the trace; only a terminal shows it.
fn progress_bar(quiet: bool) -> ProgressBar {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
    match ProgressStyle::with_template("{bar:40} {percent} % {elapsed} (about {eta} left)") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

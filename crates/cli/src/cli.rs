//! The command line.

use clap::{ArgAction, Parser, Subcommand};

use crate::commands::{conformance::ConformanceArgs, replay::ReplayArgs, trace::TraceArgs};

const EXIT_CODES: &str = "Exit codes: 0 all is well, 1 the run found a failure, 2 wrong usage or bad input.";

/// Moves KV-cache blocks between memory and object stores, and shows how that goes on real traces.
#[derive(Debug, Parser)]
#[command(name = "kvtier", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Log more to standard error: -v info, -vv debug, -vvv trace. Wins over RUST_LOG.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,

    /// Log errors only, and show no notices and no progress.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Conformance(ConformanceArgs),
    Replay(ReplayArgs),
    Trace(TraceArgs),
}

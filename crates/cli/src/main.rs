//! The `kvtier` command. Exit codes: 0 all is well, 1 the run found a failure, 2 wrong usage or bad input.

mod cli;
mod commands;
mod replay;

use std::{
    error::Error,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::{
    cli::{Cli, Command},
    commands::output::OutputError,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    init_logging(&cli);
    let result = match &cli.command {
        Command::Conformance(args) => commands::conformance::run(args, cli.quiet),
        Command::Replay(args) => commands::replay::run(args, cli.quiet),
        Command::Trace(args) => commands::trace::run(args, cli.quiet),
    };
    result.unwrap_or_else(|error| {
        if error.downcast_ref().is_some_and(OutputError::is_closed_pipe) {
            return ExitCode::SUCCESS;
        }
        // There is nobody left to tell if this fails.
        let _ = writeln!(io::stderr(), "error: {}", with_causes(error.as_ref()));
        ExitCode::from(2)
    })
}

/// The flags win over `RUST_LOG`, which wins over the default.
fn init_logging(cli: &Cli) {
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let filter = if cli.quiet || cli.verbose > 0 {
        EnvFilter::new(level)
    } else {
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level))
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        // It would say with `eprintln!` that it cannot write to standard error, and panic.
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .init();
}

fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

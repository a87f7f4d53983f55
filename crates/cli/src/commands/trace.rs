//! `kvtier trace`: statistics of a trace, and generated traces.

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use indicatif::ProgressBar;
use kvtier_cli::trace::{GeneratorOptions, TraceSource, TraceStats, TraceSummary};
use serde::Serialize;

use super::{
    CommandResult,
    output::{self, Output},
    workload::WorkloadArgs,
};

const EXAMPLES: &str = "\
Examples:
  kvtier trace conversation_trace.jsonl         statistics of a trace
  kvtier trace --seed 7                         statistics of a generated workload
  kvtier trace --seed 7 --output trace.jsonl    write that workload as a trace
  kvtier trace - --limit 300 --json             the first 300 requests of standard input, as JSON";

/// Show the statistics of a trace, or generate one.
///
/// A trace has one JSON object a line, in the format of Mooncake: timestamp (ms), input_length and output_length
/// (tokens), and hash_ids (one per block of 512 input tokens).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Write the requests to this file, which appears complete or not at all; `-` is standard output. Then
    /// statistics are only shown with `--stats`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show statistics although the requests are written to a file.
    #[arg(long)]
    stats: bool,

    /// Show the statistics as JSON.
    #[arg(long)]
    json: bool,
}

/// The statistics as `--json` shows them.
#[derive(Serialize)]
struct Report<'a> {
    trace: &'a str,
    #[serde(flatten)]
    summary: TraceSummary,
}

/// Runs the command.
pub(crate) fn run(args: &TraceArgs, quiet: bool) -> CommandResult {
    let shows_stats = args.output.is_none() || args.stats || args.json;
    if shows_stats && args.output.as_deref().is_some_and(output::is_stdout) {
        return Err("the requests and the statistics cannot both go to standard output".into());
    }
    let source = args.workload.open(GeneratorOptions::default().requests)?;
    let name = source.description().to_owned();
    if args.workload.trace.is_none() && !quiet {
        // A courtesy: a closed standard error does not stop the run.
        let _ = writeln!(io::stderr(), "{name}");
    }
    let mut output = args.output.as_deref().map(Output::create).transpose()?;
    let mut stats = shows_stats.then(TraceStats::new);
    copy(source, output.as_mut(), stats.as_mut(), quiet)?;
    if let Some(output) = output {
        output.finish()?;
    }
    if let Some(stats) = stats {
        let summary = stats.summary();
        if summary.broken_chains > 0 {
            tracing::warn!(
                "block ids of {name} do not stand for whole prefixes; its hit figures mean little"
            );
        }
        output::print(&render(&name, summary, args.json)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes every request to where it is wanted.
fn copy(
    mut source: TraceSource,
    mut output: Option<&mut Output>,
    mut stats: Option<&mut TraceStats>,
    quiet: bool,
) -> Result<(), Box<dyn Error>> {
    // Often enough to look alive, and so rarely that a short trace shows no bar.
    const REQUESTS_PER_UPDATE: u64 = 1 << 15;
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
    for count in 1_u64.. {
        let Some(request) = source.next().transpose()? else { break };
        if let Some(output) = &mut output {
            output.write(|writer| request.write_line(writer))?;
        }
        if let Some(stats) = &mut stats {
            stats.add(&request);
        }
        if count % REQUESTS_PER_UPDATE == 0
            && let Some((done, total)) = source.progress()
        {
            bar.set_length(total);
            bar.set_position(done);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn render(name: &str, summary: TraceSummary, json: bool) -> serde_json::Result<String> {
    Ok(if json {
        serde_json::to_string_pretty(&Report { trace: name, summary })? + "\n"
    } else {
        format!("{name}\n\n{summary}")
    })
}

//! Project tasks. `cargo xtask test` is what the README names and what CI runs.

mod fuzz;
mod nixl;
mod run;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the kvtier project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every test: unit, integration and documentation tests, and the main job on a generated workload.
    Test,
    /// Run the fuzz targets, each for a while. The planted bug of the canary must be found.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Only the targets whose name contains this.
        #[arg(default_value = "")]
        only: String,
    },
    /// Run the tests that need Ceph RGW: Debian's packages radosgw, ceph-mon and ceph-osd.
    Ceph,
    /// Explore every interleaving of leases and of the completion queue.
    Loom,
    /// Provide what the NIXL engine needs and print it as shell variables, for `eval "$(cargo xtask nixl)"`. Fetches the
    /// pinned library, and libclang if there is none, from PyPI into `target/nixl`, once; installs nothing.
    Nixl,
    /// Check what the compiler does not: lengths of files and functions.
    Tidy,
    /// What must hold before a change lands, besides the tests: format, lints with each feature alone, documentation,
    /// tidiness.
    Lint,
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Test => run::test(),
        Task::Ceph => run::ceph(),
        Task::Fuzz { seconds, only } => fuzz::run(&only, seconds),
        Task::Loom => run::loom(),
        Task::Nixl => nixl::provide().map(|environment| environment.print()),
        Task::Tidy => tidy::check(),
        Task::Lint => run::lint().and_then(|()| tidy::check()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

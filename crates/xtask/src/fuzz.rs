//! Runs the fuzz targets for a while each, with libFuzzer's own driver in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What every target but this one must not do is what this one must: find its planted bug.
const CANARY: &str = "canary";
const CANARY_WORDS: &str = "the canary was found";
/// Coverage as libFuzzer reads it. All of these are stable options of the compiler.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";
/// Named, so that build scripts and macros are built without those flags.
const TARGET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
const FOLDER: &str = "target/fuzz";

/// Builds every target and runs those whose name contains `only`, for `seconds` each.
pub(crate) fn run(only: &str, seconds: u32) -> Result<(), String> {
    let targets: Vec<_> = targets()?.into_iter().filter(|name| name.contains(only)).collect();
    if targets.is_empty() {
        return Err(format!("no fuzz target's name contains {only:?}"));
    }
    build()?;
    for name in &targets {
        let output = fuzz(name, seconds)?;
        judge(name, &output)?;
    }
    Ok(())
}

/// The names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, String> {
    let files =
        fs::read_dir("fuzz/fuzz_targets").map_err(|error| format!("cannot read the targets: {error}"))?;
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<_> = files.flatten().filter_map(|file| stem(file.path())).collect();
    names.sort();
    Ok(names)
}

fn build() -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "--bins", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    command.args(["--target", TARGET, "--target-dir", FOLDER]).env("RUSTFLAGS", RUSTFLAGS);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the fuzz targets do not build: {status}")) }
}

fn fuzz(name: &str, seconds: u32) -> Result<Output, String> {
    let binary = Path::new(FOLDER).join(TARGET).join("release").join(name);
    // What is found new goes to the first folder; the seeds are read only.
    let found = Path::new(FOLDER).join("corpus").join(name);
    fs::create_dir_all(&found).map_err(|error| format!("cannot make {}: {error}", found.display()))?;
    let mut command = Command::new(binary);
    command.arg(&found);
    let seeds = Path::new("fuzz/seeds").join(name);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    // Slots that are lost are leaked on purpose, and with them their memory.
    command.arg(format!("-max_total_time={seconds}")).args([
        "-print_final_stats=1",
        "-timeout=20",
        "-max_len=4096",
    ]);
    command.arg(format!("-artifact_prefix={FOLDER}/{name}-"));
    let output = command.stdin(Stdio::null()).output();
    output.map_err(|error| format!("cannot run the fuzz target {name}: {error}"))
}

/// The canary must have crashed, and nothing else may have.
fn judge(name: &str, output: &Output) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let figure = |label: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(label));
        line.map_or("?", str::trim).to_owned()
    };
    let executions = figure("stat::number_of_executed_units:");
    println!("== fuzz {name}: {executions} executions, {} per second", figure("stat::average_exec_per_sec:"));
    let found = said.contains(CANARY_WORDS);
    match (name == CANARY, output.status.success()) {
        (true, false) if found => Ok(()),
        (true, _) => Err("the fuzzer did not find the canary's planted bug: it is dead".to_owned()),
        (false, true) if executions.parse::<u64>().is_ok_and(|executions| executions > 1000) => Ok(()),
        (false, true) => Err(format!("{name} ran only {executions} inputs")),
        (false, false) => {
            let is_cause = |line: &&str| !line.contains("panicked") && !line.contains("ERROR: libFuzzer");
            let from_panic = said.lines().skip_while(is_cause).take(40);
            let why = from_panic.collect::<Vec<_>>().join("\n");
            Err(format!("{name} failed; the input is in {FOLDER}/{name}-*:\n{why}"))
        }
    }
}

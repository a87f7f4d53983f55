//! Runs `kvtier trace` as a user does.

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

type TestResult = Result<(), Box<dyn Error>>;

const GOOD: &str = r#"{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [0, 1]}"#;

fn kvtier(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvtier"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Result<Output, Box<dyn Error>> {
    Ok(kvtier(args).output()?)
}

/// Runs a command that succeeds; returns what it prints.
fn stdout(args: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = run(args)?;
    assert!(output.status.success(), "{args:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command that ends with exit code 2; returns its error, without the notice about a generated workload.
fn error(args: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = run(args)?;
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert_eq!(String::from_utf8(output.stdout)?, "");
    let text = String::from_utf8(output.stderr)?;
    let start = text.find("error: ").ok_or_else(|| format!("no error in {text:?}"))?;
    Ok(text[start..].to_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Names of what is in a folder.
fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Without a trace, a workload is made, and both standard error and the report say so; `-q` silences the former.
#[test]
fn generated_workload_is_called_generated() -> TestResult {
    let output = run(&["trace", "--seed", "7", "--requests", "50"])?;
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr)?, "generated workload, seed 7\n");
    let report = String::from_utf8(output.stdout)?;
    assert!(report.starts_with("generated workload, seed 7\n\nrequests "), "{report}");
    let quiet = run(&["-q", "trace", "--requests", "50"])?;
    assert_eq!(String::from_utf8(quiet.stderr)?, "");
    Ok(())
}

/// A written workload reads back with the figures of the generated one, from the file and from standard input.
#[test]
fn written_workload_reads_back() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.jsonl");
    let workload = ["trace", "--seed", "7", "--requests", "200"];
    assert_eq!(stdout(&[&workload[..], &["--output", text(&path)]].concat())?, "");
    assert_eq!(names(folder.path())?, ["trace.jsonl"]);

    let mut generated: Value = serde_json::from_str(&stdout(&[&workload[..], &["--json"]].concat())?)?;
    let mut read: Value = serde_json::from_str(&stdout(&["trace", text(&path), "--json"])?)?;
    assert_eq!(generated["trace"].take(), "generated workload, seed 7");
    assert_eq!(read["trace"].take(), text(&path));
    assert_eq!(read["requests"], 200);
    assert_eq!(read, generated);

    let piped = kvtier(&["trace", "-", "--json"]).stdin(fs::File::open(&path)?).output()?;
    let mut piped: Value = serde_json::from_slice(&piped.stdout)?;
    assert_eq!(piped["trace"].take(), "standard input");
    assert_eq!(piped, generated);
    Ok(())
}

/// `--output -` prints what `--output FILE` writes; the same seed prints the same, another seed something else.
#[test]
fn output_to_standard_output() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.jsonl");
    let printed = |seed| stdout(&["trace", "--seed", seed, "--requests", "20", "--output", "-"]);
    stdout(&["trace", "--seed", "7", "--requests", "20", "--output", text(&path)])?;
    assert_eq!(printed("7")?, fs::read_to_string(&path)?);
    assert_ne!(printed("7")?, printed("8")?);
    Ok(())
}

/// `--limit` stops before what comes after it, bad lines included, and shortens a generated workload.
#[test]
fn limit_stops_early() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.jsonl");
    fs::write(&path, format!("{GOOD}\n{GOOD}\nnot a request\n"))?;
    let report: Value = serde_json::from_str(&stdout(&["trace", text(&path), "--limit", "2", "--json"])?)?;
    assert_eq!(report["requests"], 2);
    assert_eq!(stdout(&["trace", "--limit", "3", "--output", "-"])?.lines().count(), 3);
    Ok(())
}

/// A bad line ends the command with exit code 2, and the error names the file, the line and what is wrong.
#[test]
fn bad_line_is_named() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.jsonl");
    for (line, problem) in [
        ("x", "not JSON: expected value at column 1"),
        (&GOOD.replace(": 0,", ": -1,"), "`timestamp` is negative: -1"),
        (&GOOD[..40], "cut short: the line ends in the middle of its JSON"),
    ] {
        fs::write(&path, format!("{GOOD}\n\n{line}"))?;
        let expected = format!("error: {}, line 3: {problem}\n", path.display());
        assert_eq!(error(&["trace", text(&path)])?, expected);
    }
    Ok(())
}

/// A missing trace is named, with the cause.
#[test]
fn missing_trace_is_named() -> TestResult {
    let error = error(&["trace", "no/such/trace.jsonl"])?;
    assert!(error.starts_with("error: cannot open the trace `no/such/trace.jsonl`: No such file"), "{error}");
    Ok(())
}

/// A folder is no trace.
#[test]
fn folder_is_no_trace() -> TestResult {
    let folder = tempfile::tempdir()?;
    let error = error(&["trace", text(folder.path())])?;
    assert!(error.contains(", line 1: cannot read: "), "{error}");
    Ok(())
}

/// Options that make no sense together are refused.
#[test]
fn contradictions_are_refused() -> TestResult {
    for args in [
        &["trace", "trace.jsonl", "--seed", "1"][..],
        &["trace", "trace.jsonl", "--requests", "1"],
        &["trace", "--requests", "0"],
        &["trace", "--limit", "0"],
        &["-v", "-q", "trace"],
        &["trace", "--output", "-", "--stats"],
        &["trace", "--output", "-", "--json"],
        &["unknown"],
    ] {
        error(args)?;
    }
    Ok(())
}

/// An output that cannot be opened is named, and nothing is left behind.
#[test]
fn unwritable_output_is_named() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("no/such/folder/trace.jsonl");
    let missing = error(&["trace", "--output", text(&path)])?;
    let expected = format!("error: cannot write to `{}`: No such file or directory", path.display());
    assert!(missing.starts_with(&expected), "{missing}");
    let is_folder = error(&["trace", "--output", text(folder.path())])?;
    assert!(is_folder.contains("is a directory"), "{is_folder}");
    assert_eq!(names(folder.path())?, [""; 0]);
    Ok(())
}

/// A trace that goes bad half way leaves the old output file as it was, and no other file.
#[test]
fn failed_copy_keeps_the_old_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, format!("{GOOD}\nx\n"))?;
    fs::write(&output, "old")?;
    error(&["trace", text(&input), "--output", text(&output)])?;
    assert_eq!(fs::read_to_string(&output)?, "old");
    assert_eq!(names(folder.path())?.len(), 2);
    // The same copy without the bad line replaces the file.
    stdout(&["trace", text(&input), "--limit", "1", "--output", text(&output)])?;
    assert_eq!(fs::read_to_string(&output)?, format!("{}\n", GOOD.replace(' ', "")));
    Ok(())
}

/// A full device is an error, for requests and for statistics, and the device is still one afterwards.
#[cfg(target_os = "linux")]
#[test]
fn full_device_is_an_error() -> TestResult {
    use std::os::unix::fs::FileTypeExt;

    let requests = error(&["trace", "--requests", "500", "--output", "/dev/full"])?;
    assert!(requests.starts_with("error: cannot write to `/dev/full`: No space left"), "{requests}");
    assert!(fs::metadata("/dev/full")?.file_type().is_char_device());

    let full = fs::File::options().write(true).open("/dev/full")?;
    let statistics = kvtier(&["trace", "--requests", "5"]).stdout(full).stderr(Stdio::piped()).output()?;
    assert_eq!(statistics.status.code(), Some(2));
    let text = String::from_utf8(statistics.stderr)?;
    assert!(text.contains("error: cannot write to standard output: No space left"), "{text}");
    Ok(())
}

/// A disk that fills up half way, played by a limit on the size of files, leaves no file behind.
#[cfg(unix)]
#[test]
fn disk_that_fills_up_leaves_no_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.jsonl");
    // The signal must be ignored, or it ends the process before the error is seen.
    let script = r#"trap "" XFSZ && ulimit -f 16 && exec "$0" trace --requests 500 --output "$1""#;
    let output =
        Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_kvtier"), text(&path)]).output()?;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = String::from_utf8(output.stderr)?;
    assert!(error.contains("error: cannot write to `") && error.contains("File too large"), "{error}");
    assert_eq!(names(folder.path())?, [""; 0]);
    Ok(())
}

/// A reader that has seen enough, such as `head`, ends the command quietly.
#[test]
fn closed_pipe_is_no_failure() -> TestResult {
    // Far more than a pipe holds, so that the command is still writing when the pipe closes.
    let mut child = kvtier(&["-q", "trace", "--requests", "50000", "--output", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
    assert!(line.starts_with("{\"timestamp\":0,"), "{line}");
    let output = child.wait_with_output()?;
    assert_eq!((output.status.code(), String::from_utf8(output.stderr)?), (Some(0), String::new()));
    Ok(())
}

/// A trace whose ids do not stand for prefixes is measured, with a warning.
#[test]
fn broken_chains_are_reported() -> TestResult {
    let mut file = tempfile::NamedTempFile::new()?;
    writeln!(file, "{GOOD}\n{}", GOOD.replace("[0, 1]", "[2, 1]"))?;
    let output = run(&["trace", text(file.path()), "--json"])?;
    assert!(output.status.success());
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout)?["broken_chains"], 1);
    let warning = String::from_utf8(output.stderr)?;
    assert!(warning.contains("do not stand for whole prefixes"), "{warning}");
    Ok(())
}

/// The help shows examples, and the version is the crate's.
#[test]
fn help_and_version() -> TestResult {
    let help = stdout(&["trace", "--help"])?;
    assert!(help.contains("kvtier trace --seed 7 --output trace.jsonl"), "{help}");
    assert_eq!(stdout(&["--version"])?, format!("kvtier {}\n", env!("CARGO_PKG_VERSION")));
    Ok(())
}

//! `kvtier replay`, run as users run it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kvtier_testkit::S3Server;
use serde_json::Value;

/// A run of the command with a block size and memory that make it quick and make it evict.
fn replay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvtier"));
    command.args(["replay", "--block-bytes", "1024", "--memory-blocks", "64"]).args(args);
    command
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{}", stderr(output)))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn count(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report}"))
}

fn file_url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// A hundred generated requests onto a store; the exit code and the report.
fn run(url: &str, more: &[&str]) -> (Option<i32>, Value) {
    let output = replay(&["--requests", "100", "--json", "--store", url]).args(more).output().unwrap();
    (output.status.code(), json(&output))
}

fn assert_adds_up(report: &Value) {
    let parts =
        ["memory_hit_blocks", "store_hit_blocks", "computed_blocks"].map(|field| count(report, field));
    assert_eq!(parts.iter().sum::<u64>(), count(report, "blocks"), "{report}");
    assert_eq!(count(report, "requests"), 100, "{report}");
}

/// With a small memory the store serves blocks, all of them right; a second run over the same store computes nothing.
fn assert_second_run_computes_nothing(url: &str, more: &[&str]) {
    let (code, first) = run(url, more);
    assert_adds_up(&first);
    assert_eq!(code, Some(0), "{first}");
    assert!(count(&first, "store_hit_blocks") > 0, "{first}");
    assert!(count(&first["stored"], "blocks") > 0, "{first}");
    let (code, second) = run(url, more);
    assert_adds_up(&second);
    assert_eq!(code, Some(0), "{second}");
    assert_eq!(count(&second, "computed_blocks"), 0, "{second}");
    assert_eq!(second["tokens_not_recomputed"], second["tokens"], "{second}");
    for report in [first, second] {
        assert_eq!(count(&report, "corrupt_served_blocks") + count(&report, "corrupt_refused_blocks"), 0);
        assert_eq!(report["loaded"]["failed_blocks"], serde_json::json!({}));
    }
}

/// The main job on a local directory.
#[test]
fn a_directory_serves_what_it_stored() {
    let folder = tempfile::tempdir().unwrap();
    assert_second_run_computes_nothing(&file_url(folder.path()), &[]);
}

/// The main job on an S3 server, with the options of vLLM's `store_config`.
#[test]
fn an_s3_server_serves_what_it_stored() {
    assert_s3_serves_what_it_stored("object-store");
}

/// The same through NIXL, with the real library.
#[cfg(feature = "nixl")]
#[test]
fn nixl_serves_what_it_stored() {
    assert_s3_serves_what_it_stored("nixl");
}

fn assert_s3_serves_what_it_stored(engine: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(S3Server::start()).unwrap();
    let config = serde_json::json!({
        "access_key": server.access_key(), "secret_key": server.secret_key(), "region": server.region(),
    });
    let url = format!("s3://{}/some/prefix", server.bucket());
    let more = ["--engine", engine, "--endpoint", server.endpoint(), "--store-config", &config.to_string()];
    assert_second_run_computes_nothing(&url, &more);

    let wrong = [
        "--engine",
        engine,
        "--endpoint",
        server.endpoint(),
        "--store-config",
        "access_key=a",
        "--store-config",
        "secret_key=b-secret",
    ];
    let output = replay(&["--store", &url]).args(wrong).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("access_key"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("b-secret"), "{}", stderr(&output));
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// A block with flipped bytes and one that was cut are both found, the run exits with 1, and what is computed
/// in their place is stored anew: the run after is clean.
#[test]
fn corrupt_blocks_are_found_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let url = file_url(folder.path());
    run(&url, &[]);
    let objects = files(folder.path());
    let mut bytes = fs::read(&objects[0]).unwrap();
    bytes[1000] ^= 1;
    fs::write(&objects[0], bytes).unwrap();
    fs::write(&objects[1], [0; 1023]).unwrap();
    fs::write(&objects[2], [0; 1025]).unwrap();

    let (code, report) = run(&url, &[]);
    assert_adds_up(&report);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(count(&report, "corrupt_served_blocks"), 1, "{report}");
    assert_eq!(count(&report, "corrupt_refused_blocks"), 2, "{report}");
    assert_eq!(report["loaded"]["failed_blocks"]["corrupt"], 2, "{report}");

    let (code, report) = run(&url, &[]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(count(&report, "computed_blocks"), 0, "{report}");
}

/// Bad input ends the run with exit code 2 and says where it is.
#[test]
fn bad_traces_are_refused_with_the_line() {
    let good = r#"{"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}"#;
    for (bad, why) in [
        ("no json", "line 2: not JSON"),
        (
            r#"{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [0]}"#,
            "line 2: `timestamp` is negative",
        ),
        (r#"{"timestamp": 2, "input_length": 600, "outpu"#, "line 2: cut short"),
    ] {
        let mut trace = tempfile::NamedTempFile::new().unwrap();
        write!(trace, "{good}\n{bad}").unwrap();
        let output = replay(&["--store", "memory://"]).arg(trace.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let output = replay(&["/no/such/trace"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/no/such/trace"), "{}", stderr(&output));
}

/// A store that cannot be reached, or an option that does not exist, ends the run before it begins, and says what to look at.
#[test]
fn bad_stores_are_refused() {
    let keys = ["--store-config", "access_key=a", "--store-config", "secret_key=b"];
    let unreachable = ["--store", "s3://bucket", "--endpoint", "http://127.0.0.1:1"];
    for (args, why) in [
        ([&unreachable[..], &keys].concat(), "endpoint"),
        (vec!["--store", "s3://bucket", "--store-config", "bukcet=x"], "bucket"),
        (vec!["--store", "ftp://x"], "s3://bucket/prefix"),
        (
            vec!["--store", "memory://", "--store-config", "region=x", "--store-config", "region=y"],
            "given twice",
        ),
        (vec!["--speed", "0"], "max"),
        (vec!["--engine", "warp"], "object-store"),
    ] {
        let output = replay(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    }
}

/// Ctrl-C ends a run cleanly, with the report so far.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_the_report_so_far() {
    let args = ["--requests", "100", "--speed", "0.01", "--json", "--store", "memory://"];
    let mut child = replay(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notice = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut notice).unwrap();
    assert!(notice.contains("generated workload, seed 1"), "{notice}");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report = json(&output);
    assert_eq!(report["interrupted"], true);
    assert!(count(&report, "requests") < 100);
}

/// Ctrl-C is heard while standard input is silent, and while nothing is due for years.
#[cfg(unix)]
#[test]
fn ctrl_c_is_heard_while_nothing_comes() {
    let far =
        r#"{"timestamp": 18446744073709551615, "input_length": 1, "output_length": 1, "hash_ids": [0]}"#;
    let near = far.replace("18446744073709551615", "0");
    for lines in [String::new(), format!("{near}\n{far}\n")] {
        let mut child = replay(&["-", "--speed", "0.001", "--json", "--store", "memory://"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(lines.as_bytes()).unwrap();
        let mut notice = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut notice).unwrap();
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(json(&output)["interrupted"], true);
        drop(input);
    }
}

/// A standard error that cannot be written changes neither the report nor the exit code.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_error_changes_nothing() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let args = ["-vv", "--requests", "5", "--json", "--store", "memory://"];
    let output = replay(&args).stderr(full).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json(&output)["requests"], 5);
}

/// Without `--store` the blocks go below the current directory, whatever it is called.
#[test]
fn the_default_store_is_below_the_current_directory() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("a%20b #c?");
    fs::create_dir(&odd).unwrap();
    let output = replay(&["--requests", "5"]).current_dir(&odd).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!files(&odd.join("kvtier-replay-store")).is_empty());
}

/// The report for people has every figure, and says that the workload is made up.
#[test]
fn the_report_is_readable() {
    let output = replay(&["--requests", "20", "--store", "memory://"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "generated workload, seed 1",
        "served from memory",
        "served from store",
        "tokens not recomputed",
        "loaded",
        "stored",
        "p99",
        "failed blocks",
        "corrupt blocks        0 (0 refused, 0 served)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

//! `kvtier conformance`, run as users run it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use kvtier_testkit::{Fault, FaultProxy, FaultRule, S3Options, S3Server};
use serde_json::Value;

fn conformance(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kvtier")).arg("conformance").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn on_server(server: &S3Server, endpoint: &str, more: &[&str]) -> Output {
    let url = format!("s3://{}/some/prefix", server.bucket());
    let config = serde_json::json!({
        "access_key": server.access_key(), "secret_key": server.secret_key(), "region": server.region(),
    });
    let config = config.to_string();
    conformance(&[&["--store", &url, "--endpoint", endpoint, "--store-config", &config], more].concat())
}

/// A directory passes, the table says so, and nothing is left in it.
#[test]
fn a_directory_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", folder.path().display());
    let output = conformance(&["--store", &url]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{}", text(&output.stderr));
    assert!(table.contains("round_trip/sizes") && table.contains("0 failed"), "{table}");
    assert!(table.ends_with("The store does what kvtier relies on.\n"), "{table}");
    let files = |folder: std::path::PathBuf| -> usize {
        let mut folders = vec![folder];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files += 1 }
            }
        }
        files
    };
    assert_eq!(files(folder.path().to_owned()), 0);
}

/// An S3 server passes; one that shortens objects does not, the exit code is 1, and the report says what is missing.
#[test]
fn an_s3_server_conforms_or_not() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let good = on_server(&server, server.endpoint(), &["--json"]);
    let report: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!(good.status.code(), Some(0), "{report}");
    let passed =
        report["cases"].as_array().unwrap().iter().filter(|case| case["outcome"] == "passed").count();
    assert!(passed >= 20, "{report}");
    assert_eq!(server.store().keys(server.bucket()), [""; 0]);

    let proxy = FaultProxy::start_on_thread(server.endpoint()).unwrap();
    proxy.add(FaultRule::always("one_key_twice", Fault::Truncate(10)).methods(["GET"]));
    let bad = on_server(&server, proxy.endpoint(), &["--only", "round_trip"]);
    let table = text(&bad.stdout);
    assert_eq!(bad.status.code(), Some(1), "{table}");
    assert!(table.contains("FAILED") && table.contains("does not show what kvtier relies on"), "{table}");
    assert_eq!(server.store().keys(server.bucket()), [""; 0]);
}

/// The NIXL engine on the same server.
#[cfg(feature = "nixl")]
#[test]
fn nixl_conforms() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let output =
        on_server(&server, server.endpoint(), &["--engine", "nixl", "--store-config", "num_threads=4"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Wrong usage, and a store that does not answer, exit with 2 and say what to do.
#[test]
fn wrong_usage_is_told() {
    for (args, words) in [
        (&[][..], "--store"),
        (&["--store", "memory://"], "file:///"),
        (&["--only", "nothing-like-it"], "--list"),
        (
            &[
                "--store",
                "s3://b",
                "--endpoint",
                "http://127.0.0.1:9",
                "--store-config",
                "access_key=a",
                "--store-config",
                "secret_key=b",
            ],
            "endpoint_override",
        ),
    ] {
        let output = conformance(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    }
    let list = conformance(&["--list"]);
    assert!(list.status.success() && text(&list.stdout).contains("failure/short"));
}

use std::process::Command;
use std::time::Instant;

use crate::nixl;

/// What is off by default because its build needs libclang.
const FEATURES: &str = "kvtier-cli/nixl,kvtier-tests/nixl";

/// The commands of `cargo xtask test`, each with the stage it is reported as.
const TEST: &[(&str, &[&str])] = &[
    (
        "unit and integration tests",
        &["test", "--workspace", "--all-targets", "--features", FEATURES, "--locked", "--", "--show-output"],
    ),
    ("documentation tests", &["test", "--workspace", "--doc", "--features", FEATURES, "--locked"]),
    (
        "main job",
        &[
            "run",
            "--release",
            "--locked",
            "-p",
            "kvtier-cli",
            "--features",
            "nixl",
            "--",
            "replay",
            "--limit",
            "300",
            "--memory-blocks",
            "256",
            "--store",
            "memory://",
        ],
    ),
];

/// The commands of `cargo xtask ceph`. The same features as above, or much would be built twice.
const CEPH: &[(&str, &[&str])] = &[(
    "tests on Ceph RGW",
    &[
        "test",
        "--workspace",
        "--features",
        FEATURES,
        "--locked",
        "--test",
        "ceph",
        "--test",
        "conformance",
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ],
)];

/// The command of `cargo xtask loom`.
const LOOM: &[&str] =
    &["test", "-p", "kvtier-core", "--lib", "--locked", "--target-dir", "target/loom", "loom_"];

/// The commands of `cargo xtask lint`.
const LINT: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    (
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            FEATURES,
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
    ),
    (
        "facade without engines",
        &["clippy", "-p", "kvtier", "--no-default-features", "--locked", "--", "-D", "warnings"],
    ),
    (
        "facade with the mock engine",
        &[
            "clippy",
            "-p",
            "kvtier",
            "--no-default-features",
            "--features",
            "mock",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
    ),
    ("documentation", &["doc", "--workspace", "--features", FEATURES, "--no-deps", "--locked"]),
    ("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target", "--locked"]),
];

pub(crate) fn test() -> Result<(), String> {
    stages(TEST)
}

pub(crate) fn ceph() -> Result<(), String> {
    stages(CEPH)
}

pub(crate) fn loom() -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(LOOM).env("RUSTFLAGS", "--cfg kvtier_loom");
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("loom found something: {status}")) }
}

pub(crate) fn lint() -> Result<(), String> {
    stages(LINT)
}

fn stages(stages: &[(&str, &[&str])]) -> Result<(), String> {
    let environment = nixl::provide()?;
    for (name, args) in stages {
        println!("== {name}: cargo {}", args.join(" "));
        #[expect(clippy::disallowed_methods, reason = "prints how long each stage of a task took")]
        let start = Instant::now();
        // Warnings of rustdoc are errors; the variable means nothing to the other stages.
        let mut command = Command::new(env!("CARGO"));
        command.args(*args).env("RUSTDOCFLAGS", "-D warnings");
        let status =
            environment.apply(&mut command).status().map_err(|error| format!("cannot run cargo: {error}"))?;
        println!("== {name}: {status} after {:.0} s", start.elapsed().as_secs_f64());
        if !status.success() {
            return Err(format!("{name} failed"));
        }
    }
    Ok(())
}

//! `kvtier conformance`: the suite that every engine passes, on a store of the user's.

use std::{
    error::Error,
    fmt::{self, Write as _},
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use clap::Args;
use futures_util::TryStreamExt as _;
use indicatif::ProgressBar;
use kvtier::object_store::{StoreConfig, StoreKind, StoreUrl, s3_client};
use kvtier::{EngineKind, TierRuntime, TransferEngine};
use kvtier_conformance::{BackDoor, CaseOutcome, CaseReport, Fixture, ObjectStoreDoor, Report, Suite};
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::{CommandResult, output, stop::stop_signal, store::StoreArgs};

const EXAMPLES: &str = "\
Examples:
  kvtier conformance --store file:///tmp/blocks
  kvtier conformance --engine object-store --store s3://bucket/prefix --endpoint http://127.0.0.1:9000 \\
      --store-config access_key=KEY --store-config secret_key=SECRET
  kvtier conformance --list

Objects are made under PREFIX/kvtier-conformance-TIME and deleted at the end, also after Ctrl-C; the keys need the rights to get,
put, list and delete. What fails is outside of what kvtier can rely on: do not use the store with this engine. Cases that need a
store that fails on command do not apply to yours; kvtier's own tests run them.

Exit codes: 0 every case that applies passed, 1 one failed, 2 wrong usage, or a store that does not answer.";

/// Run the suite that every engine passes against a store of yours.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConformanceArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Run only the cases whose name contains this.
    #[arg(long, value_name = "PART", default_value = "")]
    only: String,

    /// Print the cases and what each shows, and run none.
    #[arg(long)]
    list: bool,

    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The user's store, through the engine and behind its back.
struct UserStore {
    engine: EngineKind,
    url: String,
    config: Map<String, Value>,
    runtime: Handle,
    door: ObjectStoreDoor,
    prefix: String,
}

/// Runs the command.
pub(crate) fn run(args: &ConformanceArgs, quiet: bool) -> CommandResult {
    let suite = Suite::default().only(&args.only);
    if suite.cases().next().is_none() {
        return Err(format!("--only: no case's name contains `{}`; see --list", args.only).into());
    }
    if args.list {
        output::print(&list(&suite, args.json)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = TierRuntime::new()?;
    let store = UserStore::open(&args.store, runtime.handle().clone())?;
    let report = runtime.handle().block_on(async {
        store.open().await?.probe().await?;
        let report = tokio::select! {
            // The first poll catches the signal from here on.
            biased;
            stopped = stop_signal() => stopped.map(|()| None).map_err(Into::into),
            report = run_suite(&suite, &store, quiet) => Ok::<_, Box<dyn Error>>(Some(report)),
        };
        store.clean_up().await?;
        report
    })?;
    let Some(report) = report else { return Err("interrupted; what was made is deleted".into()) };
    output::print(&if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        format!("{report}\n{}\n", conclusion(&report))
    })?;
    Ok(if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(suite: &Suite, json: bool) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    if json {
        let case = |(name, shows)| serde_json::json!({ "name": name, "shows": shows });
        text = serde_json::to_string_pretty(&suite.cases().map(case).collect::<Vec<_>>())?;
        text.push('\n');
        return Ok(text);
    }
    for (name, shows) in suite.cases() {
        writeln!(text, "{name:<38} {shows}")?;
    }
    Ok(text)
}

async fn run_suite(suite: &Suite, store: &UserStore, quiet: bool) -> Report {
    let total = suite.cases().count();
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(total as u64) };
    let progress = |case: &CaseReport| {
        bar.inc(1);
        if matches!(case.outcome, CaseOutcome::Failed(_)) && !quiet {
            // A courtesy: a closed standard error does not stop the run.
            bar.suspend(|| drop(writeln!(io::stderr(), "{} failed", case.name)));
        }
    };
    let report = suite.run_with(store, progress).await;
    bar.finish_and_clear();
    report
}

/// What the outcome means to whoever chooses a store.
fn conclusion(report: &Report) -> String {
    let failed = report.cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::Failed(_)));
    let outside: Vec<_> = failed.map(|case| format!("  - {}", case.shows)).collect();
    if outside.is_empty() {
        return "The store does what kvtier relies on.".to_owned();
    }
    format!("With this engine the store does not show what kvtier relies on:\n{}", outside.join("\n"))
}

impl UserStore {
    fn open(args: &StoreArgs, runtime: Handle) -> Result<Self, Box<dyn Error>> {
        let url = args.url().ok_or("--store says which store: s3://bucket/prefix or file:///directory")?;
        let config = args.config()?;
        let parsed: StoreUrl = url.parse()?;
        let store: Arc<dyn ObjectStore> = match parsed.kind() {
            StoreKind::S3 { bucket } => Arc::new(s3_client(&door_config(&config, bucket, parsed.prefix())?)?),
            StoreKind::Directory(dir) => {
                std::fs::create_dir_all(dir)?;
                Arc::new(LocalFileSystem::new_with_prefix(dir)?)
            }
            StoreKind::Memory => {
                return Err("memory:// is gone with each engine; use file:/// or s3://".into());
            }
        };
        #[expect(clippy::disallowed_methods, reason = "makes this run's names its own")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let slash = if parsed.prefix().is_empty() { "" } else { "/" };
        let prefix = format!("{}{slash}kvtier-conformance-{now}", parsed.prefix());
        let (engine, url, door) = (args.engine(), url.to_owned(), ObjectStoreDoor(store));
        Ok(Self { engine, url, config, runtime, door, prefix })
    }

    /// Deletes whatever a case left, which is nothing unless it was interrupted or the store failed.
    async fn clean_up(&self) -> Result<(), Box<dyn Error>> {
        let left: Vec<_> = self
            .door
            .0
            .list(Some(&Path::parse(&self.prefix)?))
            .map_ok(|object| object.location)
            .try_collect()
            .await?;
        for path in left {
            self.door.0.delete(&path).await?;
        }
        Ok(())
    }
}

/// The options that the back door shares with the engine.
fn door_config(
    config: &Map<String, Value>,
    bucket: &str,
    prefix: &str,
) -> Result<StoreConfig, Box<dyn Error>> {
    use kvtier::object_store::{ConfigKey, ConfigUser};
    let is_shared =
        |name: &String| name.parse::<ConfigKey>().is_ok_and(|key| key.is_for(ConfigUser::ObjectStoreS3));
    let shared = config.iter().filter(|(name, _)| is_shared(name));
    let shared: Map<_, _> = shared.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(StoreConfig::from_json(&shared)?.for_url(bucket, prefix)?)
}

#[async_trait]
impl Fixture for UserStore {
    async fn open(&self) -> Result<Box<dyn TransferEngine>, kvtier::Error> {
        Ok(kvtier::open(self.engine, &self.url, &self.config, &self.runtime)?.engine)
    }

    fn back_door(&self) -> &dyn BackDoor {
        &self.door
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Debug for UserStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserStore").field("url", &self.url).finish_non_exhaustive()
    }
}

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use kvtier_core::ObjectKey;

use crate::bench::{Bench, now};
use crate::case::{Case, Check};
use crate::cases::CASES;
use crate::fixture::Fixture;
use crate::{CaseOutcome, CaseReport, Report, SuiteOptions};

/// The suite: every case that says what a [`TransferEngine`](kvtier_core::TransferEngine) must do.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    options: SuiteOptions,
    only: String,
}

impl Suite {
    /// Every case, with these options.
    pub fn new(options: SuiteOptions) -> Self {
        Self { options, only: String::new() }
    }

    /// Only the cases whose name contains `part`.
    #[must_use]
    pub fn only(mut self, part: impl Into<String>) -> Self {
        self.only = part.into();
        self
    }

    /// Name, and what it shows, of every case that is chosen.
    pub fn cases(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.chosen().map(|case| (case.name, case.shows))
    }

    fn chosen(&self) -> impl Iterator<Item = &'static Case> {
        CASES.iter().copied().flatten().filter(|case| case.name.contains(&self.only))
    }

    /// Runs the cases one after the other. Needs a runtime with time.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the objects of one case in the store.
    pub async fn run(&self, fixture: &dyn Fixture) -> Report {
        self.run_with(fixture, |_| {}).await
    }

    /// Like [`run`](Self::run), and tells each case's end to `progress`.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_with(&self, fixture: &dyn Fixture, mut progress: impl FnMut(&CaseReport)) -> Report {
        let mut report = Report { engine: String::new(), cases: Vec::new() };
        for case in self.chosen() {
            let start = now();
            let outcome = self.run_case(case, fixture, &mut report.engine).await;
            let took = start.elapsed();
            let case = CaseReport { name: case.name, shows: case.shows, outcome, took };
            progress(&case);
            report.cases.push(case);
        }
        report
    }

    async fn run_case(&self, case: &'static Case, fixture: &dyn Fixture, name: &mut String) -> CaseOutcome {
        let engine = match fixture.open().await {
            Ok(engine) => engine,
            Err(error) => return CaseOutcome::Failed(format!("no engine: {error}")),
        };
        engine.capabilities().name.clone_into(name);
        let missing = case.needs.iter().find_map(|need| need.missing(engine.capabilities(), fixture));
        if let Some(why) = missing {
            engine.close(now() + self.options.patience).await;
            return CaseOutcome::NotApplicable(why.to_owned());
        }
        let mut bench = match Bench::new(engine, fixture, &self.options, case.name, case.block_bytes) {
            Ok(bench) => bench,
            Err(why) => return CaseOutcome::Failed(why),
        };
        let checked = no_panic((case.run)(&mut bench)).await;
        let keys = bench.keys();
        // Also after a failure: what runs must end before the next case begins.
        let ended = no_panic(bench.end()).await;
        let cleaned = clean_up(fixture, keys).await;
        match checked.and(ended).and(cleaned) {
            Ok(()) => CaseOutcome::Passed,
            Err(why) => CaseOutcome::Failed(why),
        }
    }
}

async fn no_panic(check: impl Future<Output = Check>) -> Check {
    AssertUnwindSafe(check).catch_unwind().await.unwrap_or_else(|_| Err("the engine panicked".to_owned()))
}

async fn clean_up(fixture: &dyn Fixture, keys: BTreeSet<ObjectKey>) -> Check {
    for key in keys {
        let deleted = fixture.back_door().delete(&key).await;
        deleted.map_err(|error| format!("{key} could not be deleted: {error}"))?;
    }
    Ok(())
}

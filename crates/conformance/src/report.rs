use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "why", rename_all = "snake_case")]
pub enum CaseOutcome {
    /// The engine does what the case shows.
    Passed,
    /// It does not, or the case could not be set up.
    Failed(String),
    /// The engine's capabilities or the fixture leave nothing to look at. Not a pass.
    NotApplicable(String),
}

/// One case of a run.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// `group/case`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub shows: &'static str,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: CaseOutcome,
    /// How long it took, in seconds.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
}

fn seconds<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.as_secs_f64())
}

/// How a run ended. [`Display`](fmt::Display) is a table.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The engine's name.
    pub engine: String,
    /// Every case that was chosen, in order.
    pub cases: Vec<CaseReport>,
}

impl Report {
    /// How many cases passed.
    pub fn passed(&self) -> usize {
        self.count(|outcome| matches!(outcome, CaseOutcome::Passed))
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, CaseOutcome::Failed(_)))
    }

    /// How many did not apply.
    pub fn not_applicable(&self) -> usize {
        self.count(|outcome| matches!(outcome, CaseOutcome::NotApplicable(_)))
    }

    fn count(&self, is: impl Fn(&CaseOutcome) -> bool) -> usize {
        self.cases.iter().filter(|case| is(&case.outcome)).count()
    }

    /// Whether something passed and nothing failed. A run in which no case applied shows nothing, so it is no success.
    pub fn is_success(&self) -> bool {
        self.failed() == 0 && self.passed() > 0
    }

    /// For tests.
    ///
    /// # Panics
    /// With the table, unless the run [is a success](Self::is_success).
    pub fn assert_success(&self) {
        assert!(self.is_success(), "the engine does not conform:\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.engine)?;
        for case in &self.cases {
            let (mark, why) = match &case.outcome {
                CaseOutcome::Passed => ("ok", ""),
                CaseOutcome::Failed(why) => ("FAILED", why.as_str()),
                CaseOutcome::NotApplicable(why) => ("n/a", why.as_str()),
            };
            let seconds = case.took.as_secs_f64();
            writeln!(f, "  {mark:<6} {seconds:>6.2} s  {:<38} {}", case.name, case.shows)?;
            if !why.is_empty() {
                writeln!(f, "                   {why}")?;
            }
        }
        write!(
            f,
            "  {} passed, {} failed, {} not applicable",
            self.passed(),
            self.failed(),
            self.not_applicable()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: &[CaseOutcome]) -> Report {
        let case = |outcome: &CaseOutcome| CaseReport {
            name: "group/case",
            shows: "something",
            outcome: outcome.clone(),
            took: Duration::ZERO,
        };
        Report { engine: "engine".to_owned(), cases: outcomes.iter().map(case).collect() }
    }

    /// Only a run with a pass and without a failure is a success: an empty one is not, nor one that skipped all.
    #[test]
    fn nothing_shown_is_no_success() {
        let [passed, failed, skipped] = [
            CaseOutcome::Passed,
            CaseOutcome::Failed("why".to_owned()),
            CaseOutcome::NotApplicable("why".to_owned()),
        ];
        assert!(!report(&[]).is_success());
        assert!(!report(std::slice::from_ref(&skipped)).is_success());
        assert!(!report(&[passed.clone(), failed]).is_success());
        let good = report(&[passed, skipped]);
        assert!(good.is_success());
        assert!(good.to_string().ends_with("1 passed, 0 failed, 1 not applicable"));
    }
}

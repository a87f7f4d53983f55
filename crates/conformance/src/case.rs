use futures_util::future::BoxFuture;
use kvtier_core::Capabilities;

use crate::bench::Bench;
use crate::fixture::Fixture;

/// Why a case fails.
pub(crate) type Check = Result<(), String>;

/// One case.
pub(crate) struct Case {
    /// `group/case`.
    pub(crate) name: &'static str,
    /// In one line.
    pub(crate) shows: &'static str,
    /// What it needs, besides an engine.
    pub(crate) needs: &'static [Need],
    /// Bytes of the blocks of its bench.
    pub(crate) block_bytes: usize,
    pub(crate) run: for<'a> fn(&'a mut Bench<'_>) -> BoxFuture<'a, Check>,
}

/// What a case may need.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    Faults,
    DetectsShort,
    DetectsLong,
    ReportsSize,
    ReportsKinds,
    HonoursDeadline,
}

impl Need {
    /// Why there is nothing to look at, if so.
    pub(crate) fn missing(self, capabilities: &Capabilities, fixture: &dyn Fixture) -> Option<&'static str> {
        let (is_there, otherwise) = match self {
            Self::Faults => (fixture.faults().is_some(), "the fixture cannot make the store fail"),
            Self::DetectsShort => (capabilities.detects_short, "the engine does not see short objects"),
            Self::DetectsLong => (capabilities.detects_long, "the engine does not see long objects"),
            Self::ReportsSize => (capabilities.reports_size, "the engine does not report sizes"),
            Self::ReportsKinds => (capabilities.reports_error_kinds, "the engine does not tell errors apart"),
            Self::HonoursDeadline => {
                (capabilities.honours_deadline, "the engine waits for what is in flight")
            }
        };
        (!is_there).then_some(otherwise)
    }
}

/// Fails the case with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use ensure;

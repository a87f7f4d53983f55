//! One module per subcommand, and what they share.

pub(crate) mod conformance;
pub(crate) mod output;
pub(crate) mod replay;
mod stop;
mod store;
pub(crate) mod trace;
mod workload;

use std::{error::Error, process::ExitCode};

/// How a command ends: an exit code of its own, or an error, which `main` shows and turns into exit code 2.
pub(crate) type CommandResult = Result<ExitCode, Box<dyn Error>>;

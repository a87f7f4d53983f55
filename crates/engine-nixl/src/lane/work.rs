use std::fmt;
use std::time::Instant;

use kvtier_core::{Direction, Error, ErrorKind, ObjectKey, Presence, Probe, Transfer};
use tokio::sync::oneshot;

use crate::verdict;

/// One thing to do with one object.
pub(crate) enum Work {
    /// Move a block.
    Transfer(Transfer),
    /// Is it there?
    Lookup(Probe),
    /// Does the store answer as it should for an object that is not there?
    Check(ObjectKey, oneshot::Sender<Result<(), Error>>),
}

impl Work {
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Transfer(transfer) => transfer.key(),
            Self::Lookup(probe) => probe.key(),
            Self::Check(key, _) => key,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Transfer(transfer) => transfer.deadline(),
            Self::Lookup(_) | Self::Check(..) => None,
        }
    }

    pub(crate) fn fail(self, kind: ErrorKind, why: impl fmt::Display) {
        let error = Error::new(kind, format!("{self}: {why}"));
        self.fail_with(error);
    }

    pub(crate) fn fail_with(self, error: Error) {
        tracing::debug!(target: "kvtier::nixl", %error, "failed");
        match self {
            Self::Transfer(transfer) => transfer.complete(Err(error)),
            Self::Lookup(probe) => probe.answer(Err(error)),
            Self::Check(_, reply) => {
                // Nobody may be waiting any more.
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Ends a question by what a small read of the object brought: its bytes, or S3's error code.
    pub(crate) fn answer(self, asked: Result<(), &str>, denied_is_absent: bool) {
        let presence = match asked {
            Ok(()) => Presence::Present { size_bytes: None },
            // A range of an empty object cannot be satisfied.
            Err("InvalidRange") => Presence::Present { size_bytes: Some(0) },
            Err("NoSuchKey") => Presence::Absent,
            Err("AccessDenied") if denied_is_absent => Presence::Absent,
            Err(code) => {
                let (kind, why) = verdict::refused(code);
                return self.fail(kind, why);
            }
        };
        match self {
            Self::Lookup(probe) => probe.answer(Ok(presence)),
            Self::Check(_, reply) => {
                // Nobody may be waiting any more.
                let _ = reply.send(Ok(()));
            }
            Self::Transfer(_) => unreachable!("a transfer asks nothing"),
        }
    }
}

/// What is done with which object.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Transfer(transfer) => match transfer.direction() {
                Direction::Store => "store of",
                Direction::Load => "load of",
            },
            Self::Lookup(_) => "lookup of",
            Self::Check(..) => "probe with",
        };
        write!(f, "{verb} {}", self.key())
    }
}

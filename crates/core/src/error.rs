//! The one error type of engines, transfers and lookups.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What went wrong, as far as a caller acts on it.
///
/// A kind exists only where callers do different things about it; everything else is in
/// the error's message and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The object is not in the store. A load of such a block fails with this kind; a lookup
    /// answers [`Presence::Absent`](crate::Presence::Absent) instead.
    NotFound,
    /// The object is there but is not the block: wrong length or wrong checksum.
    Corrupt,
    /// The store refused the credentials or the operation.
    Denied,
    /// The store asked for fewer requests (HTTP 429, 503 SlowDown).
    Throttled,
    /// The store could not be reached or failed on its side.
    Unavailable,
    /// No answer within the deadline.
    Timeout,
    /// The tier or the engine is shut down.
    Closed,
    /// The engine cannot do this, and trying again will not change that.
    Unsupported,
    /// The configuration is wrong: endpoint, bucket, region, certificate, option.
    Config,
    /// The engine gave up a block whose memory it may still touch; its slot is quarantined.
    Lost,
}

impl ErrorKind {
    /// Every kind, in declaration order: for counters and tables by kind.
    pub const ALL: [Self; 10] = [
        Self::NotFound,
        Self::Corrupt,
        Self::Denied,
        Self::Throttled,
        Self::Unavailable,
        Self::Timeout,
        Self::Closed,
        Self::Unsupported,
        Self::Config,
        Self::Lost,
    ];

    /// A short lower-case name for metrics, tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Corrupt => "corrupt",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Unsupported => "unsupported",
            Self::Config => "config",
            Self::Lost => "lost",
        }
    }

    /// Whether the same request may succeed a little later.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Throttled | Self::Unavailable | Self::Timeout => Retry::Temporary,
            Self::NotFound
            | Self::Corrupt
            | Self::Denied
            | Self::Closed
            | Self::Unsupported
            | Self::Config
            | Self::Lost => Retry::Permanent,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether trying again can help. Only the tier retries; engines never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same request may succeed later.
    Temporary,
    /// The same request fails again until somebody changes something.
    Permanent,
}

/// An error of an engine, a transfer or a lookup: a kind to act on, a message to read, and
/// the source it came from.
///
/// Cheap to clone (one pointer): several blocks may share one failure.
///
/// `Display` prints `kind: message`; the chain of sources is reached through
/// [`std::error::Error::source`]. Messages and sources never hold secrets.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a message that says what was being done and what to look at.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// Like [`Error::new`], keeping the error that caused it.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: Some(source.into()) }))
    }

    /// What to act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether trying again can help.
    pub fn retry(&self) -> Retry {
        self.0.kind.retry()
    }

    /// The message alone, without the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

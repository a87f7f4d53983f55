use std::error::Error as StdError;
use std::io;

use kvtier_core::{Error, ErrorKind};
use kvtier_store::{error_code, judge_code};
use object_store::client::{HttpError, HttpErrorKind};

use crate::credentials::CREDENTIALS;

/// Turns an error of object_store into one of ours, with a message that says what to look at.
///
/// The error itself is not kept as the source: a server may put the signed request, session token included, into the
/// body of a refusal, and object_store's error shows that body. Only the status and the code leave it.
pub(crate) fn classify(what: &str, error: &object_store::Error) -> Error {
    if let object_store::Error::Generic { store: CREDENTIALS, source } = error {
        let (kind, why) = judge_chain(source.as_ref());
        let kind = match kind {
            ErrorKind::NotFound | ErrorKind::Unsupported => ErrorKind::Config,
            kind => kind,
        };
        let message = format!(
            "{what}: no credentials: none are configured and the default chain (environment, web identity, container, \
             instance metadata) gave none: {why}; look at access_key and secret_key"
        );
        return Error::new(kind, message);
    }
    let (kind, why) = judge(error);
    Error::new(kind, format!("{what}: {why}"))
}

/// The answer of a server that refused a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status; 300 for a redirect whose status object_store does not tell.
    pub(crate) status: u16,
    /// S3's error code, empty if the body had none.
    pub(crate) code: String,
}

impl Refusal {
    /// Finds the refusal in an error. object_store keeps the type private, so this reads its text, but only
    /// of the one error in the chain that begins with these words: a key or a body cannot pass for it.
    pub(crate) fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        chain(error).find_map(|error| {
            let text = error.to_string();
            if text.starts_with("Received redirect without LOCATION") {
                return Some(Self { status: 300, code: String::new() });
            }
            let rest = text.strip_prefix("Server returned non-2xx status code: ")?;
            let status = rest.get(..3)?.parse().ok()?;
            Some(Self { status, code: error_code(rest).to_owned() })
        })
    }

    fn judge(&self) -> (ErrorKind, &'static str) {
        judge_code(&self.code).unwrap_or_else(|| self.judge_status(self.code.is_empty()))
    }

    fn judge_status(&self, is_bare: bool) -> (ErrorKind, &'static str) {
        match self.status {
            300..400 => (ErrorKind::Config, "the store redirects; look at region and endpoint_override"),
            400 if is_bare => (ErrorKind::Config, "look at scheme, region and session_token"),
            401 | 403 => (ErrorKind::Denied, "look at access_key, secret_key and their rights on the bucket"),
            404 => (ErrorKind::NotFound, ""),
            408 => (ErrorKind::Timeout, ""),
            429 => (ErrorKind::Throttled, ""),
            501 => (ErrorKind::Unsupported, ""),
            409 | 500..600 => (ErrorKind::Unavailable, ""),
            _ => (ErrorKind::Unsupported, ""),
        }
    }

    fn describe(&self) -> (ErrorKind, String) {
        let (kind, look) = self.judge();
        let status = if self.status == 300 { "redirect".to_owned() } else { format!("HTTP {}", self.status) };
        let parts = [status.as_str(), self.code.as_str()].into_iter().filter(|part| !part.is_empty());
        let answer = parts.collect::<Vec<_>>().join(" ");
        (kind, if look.is_empty() { answer } else { format!("{answer}; {look}") })
    }
}

fn judge(error: &object_store::Error) -> (ErrorKind, String) {
    use object_store::Error as Store;
    if let Some(refusal) = Refusal::of(error) {
        return refusal.describe();
    }
    match error {
        Store::NotFound { .. } => (ErrorKind::NotFound, "there is no such object".to_owned()),
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            (ErrorKind::Denied, root_cause(error))
        }
        Store::NotSupported { .. } | Store::NotImplemented { .. } | Store::InvalidPath { .. } => {
            (ErrorKind::Unsupported, error.to_string())
        }
        Store::UnknownConfigurationKey { .. } => (ErrorKind::Config, error.to_string()),
        _ => judge_chain(error),
    }
}

fn judge_chain(error: &(dyn StdError + 'static)) -> (ErrorKind, String) {
    if let Some(refusal) = Refusal::of(error) {
        return refusal.describe();
    }
    let cause = root_cause(error);
    if let Some(tls) = chain(error).find_map(|error| error.downcast_ref::<rustls::Error>()) {
        let look = match tls {
            rustls::Error::InvalidCertificate(_) => {
                "the server's certificate is not trusted; look at ca_bundle"
            }
            _ => "TLS with the server failed; look at scheme and endpoint_override",
        };
        return (ErrorKind::Config, format!("{look} ({cause})"));
    }
    if let Some(http) = chain(error).find_map(|error| error.downcast_ref::<HttpError>()) {
        return match http.kind() {
            HttpErrorKind::Connect => {
                (ErrorKind::Unavailable, format!("cannot connect; look at endpoint_override ({cause})"))
            }
            HttpErrorKind::Timeout => {
                (ErrorKind::Timeout, format!("no connection in time; look at endpoint_override ({cause})"))
            }
            HttpErrorKind::Decode => {
                let look = "the answer is not HTTP; look at scheme and endpoint_override";
                (ErrorKind::Unavailable, format!("{look} ({cause})"))
            }
            _ => (ErrorKind::Unavailable, format!("the connection broke ({cause})")),
        };
    }
    let kind = chain(error).find_map(|error| error.downcast_ref::<io::Error>()).map_or(
        ErrorKind::Unavailable,
        |error| match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Denied,
            io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                ErrorKind::Unsupported
            }
            io::ErrorKind::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Unavailable,
        },
    );
    (kind, cause)
}

/// The error and what caused it. An `io::Error` answers `source` with the source of what it wraps, so what it
/// wraps is looked at instead.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| match error.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|wrapped| wrapped as &(dyn StdError + 'static)),
        None => (*error).source(),
    })
}

/// The text of the last error in the chain, within bounds.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
    text.chars().take(200).collect()
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;

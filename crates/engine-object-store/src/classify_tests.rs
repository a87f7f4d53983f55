use std::fmt;

use super::*;

/// Stands for object_store's private error of a refused request: the same text at the same place in the chain.
#[derive(Debug)]
struct Private(String);

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Private {}

fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: source.into() }
}

fn refused(status: &str, code: &str) -> object_store::Error {
    generic(Private(format!(
        "Server returned non-2xx status code: {status}: <Error><Code>{code}</Code></Error>"
    )))
}

/// Each status and code becomes the kind that callers act on, and both are in the message.
#[test]
fn refusals_become_kinds() {
    for (status, code, kind) in [
        ("403 Forbidden", "AccessDenied", ErrorKind::Denied),
        ("403 Forbidden", "SignatureDoesNotMatch", ErrorKind::Denied),
        ("401 Unauthorized", "", ErrorKind::Denied),
        ("400 Bad Request", "ExpiredToken", ErrorKind::Denied),
        ("404 Not Found", "NoSuchKey", ErrorKind::NotFound),
        ("404 Not Found", "NoSuchBucket", ErrorKind::Config),
        ("301 Moved Permanently", "PermanentRedirect", ErrorKind::Config),
        ("400 Bad Request", "AuthorizationHeaderMalformed", ErrorKind::Config),
        ("400 Bad Request", "", ErrorKind::Config),
        ("429 Too Many Requests", "", ErrorKind::Throttled),
        ("503 Service Unavailable", "SlowDown", ErrorKind::Throttled),
        ("503 Service Unavailable", "", ErrorKind::Unavailable),
        ("500 Internal Server Error", "InternalError", ErrorKind::Unavailable),
        ("400 Bad Request", "RequestTimeout", ErrorKind::Timeout),
        ("400 Bad Request", "BadDigest", ErrorKind::Unavailable),
        ("400 Bad Request", "KeyTooLongError", ErrorKind::Unsupported),
        ("501 Not Implemented", "NotImplemented", ErrorKind::Unsupported),
    ] {
        let error = classify("GET a", &refused(status, code));
        assert_eq!(error.kind(), kind, "{status} {code}");
        assert!(error.message().starts_with("GET a: HTTP "), "{error}");
        assert!(error.message().contains(&status[..3]) && error.message().contains(code), "{error}");
    }
}

/// The body of a refusal does not reach the message or the source: S3 echoes the signed request in it.
#[test]
fn the_body_of_a_refusal_stays_inside() {
    let body = "<Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>x-amz-security-token:planted</CanonicalRequest>";
    let error = classify(
        "GET a",
        &generic(Private(format!("Server returned non-2xx status code: 403 Forbidden: {body}"))),
    );
    assert!(error.message().contains("SignatureDoesNotMatch"), "{error}");
    assert!(!format!("{error:?}").contains("planted"), "{error:?}");
}

/// A key that looks like a refusal is not believed.
#[test]
fn only_answers_are_taken_for_refusals() {
    let key = "Error performing GET http://a/Server returned non-2xx status code: 403 Forbidden";
    assert_eq!(Refusal::of(&generic(Private(key.to_owned()))), None);
}

/// Errors of the connection and of files, by the typed source in their chain.
#[test]
fn transport_errors_become_kinds() {
    let io = |kind: io::ErrorKind| generic(io::Error::from(kind));
    let http = |kind, source: io::Error| generic(HttpError::new(kind, source));
    let tls = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let untrusted = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    for (error, kind, says) in [
        (
            http(HttpErrorKind::Connect, io::ErrorKind::ConnectionRefused.into()),
            ErrorKind::Unavailable,
            "endpoint",
        ),
        (http(HttpErrorKind::Timeout, io::ErrorKind::TimedOut.into()), ErrorKind::Timeout, "endpoint"),
        (
            http(HttpErrorKind::Interrupted, io::ErrorKind::ConnectionReset.into()),
            ErrorKind::Unavailable,
            "broke",
        ),
        (http(HttpErrorKind::Connect, tls(untrusted)), ErrorKind::Config, "ca_bundle"),
        (http(HttpErrorKind::Connect, tls(rustls::Error::DecryptError)), ErrorKind::Config, "scheme"),
        (io(io::ErrorKind::PermissionDenied), ErrorKind::Denied, "permission"),
        (io(io::ErrorKind::StorageFull), ErrorKind::Unavailable, "storage"),
        (io(io::ErrorKind::NotADirectory), ErrorKind::Unsupported, "not a directory"),
        (generic("odd"), ErrorKind::Unavailable, "odd"),
    ] {
        let classified = classify("GET a", &error);
        assert_eq!(classified.kind(), kind, "{error}");
        assert!(classified.message().contains(says), "{classified}");
    }
}

/// A failure to get credentials is told from a failure of the store, whatever it is.
#[test]
fn missing_credentials_are_named() {
    let inner =
        generic(HttpError::new(HttpErrorKind::Connect, io::Error::from(io::ErrorKind::ConnectionRefused)));
    let error = object_store::Error::Generic { store: CREDENTIALS, source: Box::new(inner) };
    let classified = classify("GET a", &error);
    assert_eq!(classified.kind(), ErrorKind::Unavailable);
    assert!(classified.message().contains("no credentials"), "{classified}");
}

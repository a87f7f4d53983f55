use kvtier_core::ErrorKind;

/// Longest code that is taken for one, in bytes; S3's own end at about 50.
const CODE_BYTES_MAX: usize = 64;

/// S3's error code from the XML of a refusal; empty if there is none that looks like one.
///
/// The body may be cut off anywhere after the code, and anything may stand in it: only letters and digits leave it.
pub fn error_code(body: &str) -> &str {
    let code = body
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map_or("", |(code, _)| code);
    let is_code = code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_code { code } else { "" }
}

/// What one of S3's error codes means to a caller, with what to look at (or an empty text); `None` for a code that
/// says no more than the HTTP status does.
pub fn judge_code(code: &str) -> Option<(ErrorKind, &'static str)> {
    let judged = match code {
        "NoSuchKey" => (ErrorKind::NotFound, ""),
        "NoSuchBucket" | "InvalidBucketName" => (ErrorKind::Config, "look at bucket"),
        "AccessDenied" | "AllAccessDisabled" => {
            (ErrorKind::Denied, "look at access_key, secret_key and their rights on the bucket")
        }
        "InvalidAccessKeyId" | "NotSignedUp" => (ErrorKind::Denied, "look at access_key"),
        "SignatureDoesNotMatch" => (ErrorKind::Denied, "look at secret_key"),
        // S3 answers these with 400.
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => {
            (ErrorKind::Denied, "look at session_token")
        }
        "RequestTimeTooSkewed" => (ErrorKind::Denied, "look at this machine's clock"),
        "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
            (ErrorKind::Config, "look at region")
        }
        "SlowDown" | "Throttling" | "ThrottlingException" | "TooManyRequests" | "RequestLimitExceeded" => {
            (ErrorKind::Throttled, "")
        }
        "RequestTimeout" => (ErrorKind::Timeout, ""),
        // The body was spoilt on its way, or somebody else writes the object: another try may succeed.
        "BadDigest" | "XAmzContentSHA256Mismatch" | "IncompleteBody" | "OperationAborted" => {
            (ErrorKind::Unavailable, "")
        }
        _ => return None,
    };
    Some(judged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A code is found in a whole and in a cut body; what is no code is not taken for one.
    #[test]
    fn codes_are_read_from_bodies() {
        let body = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>no";
        assert_eq!(error_code(body), "NoSuchKey");
        for odd in ["", "<Code>SlowDo", "<Code>a b</Code>", "<Code></Code>", "NoSuchKey"] {
            assert_eq!(error_code(odd), "", "{odd}");
        }
        assert_eq!(error_code(&format!("<Code>{}</Code>", "a".repeat(65))), "");
    }
}

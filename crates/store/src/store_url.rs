use std::fmt;
use std::path::{self, PathBuf};
use std::str::FromStr;

use kvtier_core::Error;
use url::Url;

use crate::config::config_error;

/// Which store a [`StoreUrl`] means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// `s3://bucket` or `s3://bucket/prefix`.
    S3 {
        /// The bucket's name.
        bucket: String,
    },
    /// `file:///dir`: a local directory, by its absolute path.
    Directory(PathBuf),
    /// `memory://`: inside this process, gone with it.
    Memory,
}

/// Where blocks are kept, as users write it: `s3://bucket/prefix`, `file:///dir` or `memory://`.
///
/// - The prefix of an S3 URL is taken as it stands (nothing is percent-decoded), without one trailing `/`. It belongs to
///   the key mapper, so it is only carried here.
/// - A directory's URL is absolute and percent-decoded (`file:///a%20b` is `/a b`). A plain path is refused,
///   with the URL to write instead: `data` could be a directory or a forgotten `s3://`.
/// - Credentials never belong into a URL; nor do query and fragment.
///
/// ```
/// use kvtier_store::{StoreKind, StoreUrl};
///
/// let url: StoreUrl = "s3://kv/llama/a".parse()?;
/// assert_eq!(url.kind(), &StoreKind::S3 { bucket: "kv".to_owned() });
/// assert_eq!(url.prefix(), "llama/a");
/// # Ok::<(), kvtier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    kind: StoreKind,
    prefix: String,
}

impl StoreUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// `Config`, saying how the URL is to be written.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Some((scheme, rest)) = text.split_once(':') else { return Err(plain_path(text)) };
        match scheme.to_ascii_lowercase().as_str() {
            "s3" => s3(rest),
            "file" => directory(text, rest),
            "memory" if rest == "//" => Ok(Self { kind: StoreKind::Memory, prefix: String::new() }),
            "memory" => Err(config_error("a store in memory is written `memory://`")),
            _ if scheme.contains(['/', '\\', '.']) => Err(plain_path(text)),
            _ => Err(config_error(format!("`{scheme}:` is not a store; {FORMS}"))),
        }
    }

    /// Which store.
    pub fn kind(&self) -> &StoreKind {
        &self.kind
    }

    /// What the names of all objects are to begin with, for the key mapper; empty if the URL has none.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

const FORMS: &str = "write s3://bucket/prefix, file:///dir or memory://";

fn plain_path(text: &str) -> Error {
    match path::absolute(text).ok().and_then(|path| Url::from_directory_path(path).ok()) {
        Some(url) => config_error(format!(
            "`{text}` is a path, not a URL; write {}",
            url.as_str().trim_end_matches('/')
        )),
        None => config_error(FORMS),
    }
}

fn s3(rest: &str) -> Result<StoreUrl, Error> {
    let rest =
        rest.strip_prefix("//").ok_or_else(|| config_error("an S3 store is written s3://bucket/prefix"))?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.contains('@') {
        // Not shown: what stands before the `@` may be a secret.
        return Err(config_error(
            "credentials do not belong into the store's URL; use access_key and secret_key",
        ));
    }
    if bucket.is_empty() {
        return Err(config_error("the S3 URL names no bucket; write s3://bucket/prefix"));
    }
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
    Ok(StoreUrl { kind: StoreKind::S3 { bucket: bucket.to_owned() }, prefix })
}

fn directory(text: &str, rest: &str) -> Result<StoreUrl, Error> {
    let bad = |why: &str| config_error(format!("`{text}` {why}; write file:///dir with an absolute path"));
    // The URL standard would read `file:dir` and `file://./dir` as absolute paths.
    if !rest.starts_with("///") {
        return Err(bad("is not an absolute directory on this machine"));
    }
    let url = Url::parse(text).map_err(|error| bad(&format!("is not a URL ({error})")))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or fragment (write `?` as %3F and `#` as %23)"));
    }
    let path = url.to_file_path().map_err(|()| bad("is not a path"))?;
    Ok(StoreUrl { kind: StoreKind::Directory(path), prefix: String::new() })
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StoreKind::S3 { bucket } if self.prefix.is_empty() => write!(f, "s3://{bucket}"),
            StoreKind::S3 { bucket } => write!(f, "s3://{bucket}/{}", self.prefix),
            StoreKind::Directory(path) => match Url::from_file_path(path) {
                Ok(url) => f.write_str(url.as_str()),
                Err(()) => write!(f, "{}", path.display()),
            },
            StoreKind::Memory => f.write_str("memory://"),
        }
    }
}

#[cfg(test)]
mod tests {
    use kvtier_core::ErrorKind;

    use super::*;

    fn parsed(text: &str) -> (StoreKind, String) {
        let url = StoreUrl::parse(text).unwrap();
        (url.kind, url.prefix)
    }

    /// Every form that the documentation names, with and without prefix.
    #[test]
    fn the_documented_forms_are_read() {
        let s3 = |bucket: &str| StoreKind::S3 { bucket: bucket.to_owned() };
        assert_eq!(parsed("s3://kv"), (s3("kv"), String::new()));
        assert_eq!(parsed("s3://kv/"), (s3("kv"), String::new()));
        assert_eq!(parsed("S3://Kv/a b%20/ü/"), (s3("Kv"), "a b%20/ü".to_owned()));
        assert_eq!(parsed("file:///tmp/a%20b/"), (StoreKind::Directory("/tmp/a b".into()), String::new()));
        assert_eq!(parsed("memory://"), (StoreKind::Memory, String::new()));
    }

    /// A URL prints as text that reads back as the same store.
    #[test]
    fn display_reads_back() {
        for text in ["s3://kv", "s3://kv/a/b c", "file:///tmp/a%20b", "memory://"] {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), text);
            assert_eq!(StoreUrl::parse(&url.to_string()).unwrap(), url);
        }
    }

    /// Each refused form says what to write instead.
    #[test]
    fn refused_forms_say_what_to_write() {
        for (text, says) in [
            ("", "write s3://bucket/prefix"),
            ("/data/kv", "write file:///data/kv"),
            ("./kv", "is a path, not a URL; write file:///"),
            ("file:kv", "absolute path"),
            ("file://./kv", "absolute path"),
            ("file://host/kv", "absolute path"),
            ("file:///kv?x", "query"),
            ("s3:kv", "s3://bucket/prefix"),
            ("s3://", "names no bucket"),
            ("s3:///kv", "names no bucket"),
            ("memory://x", "`memory://`"),
            ("http://127.0.0.1:9000/kv", "`http:` is not a store"),
        ] {
            let error = StoreUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(says), "{text}: {error}");
        }
    }

    /// Credentials in a URL are refused without showing them.
    #[test]
    fn credentials_in_a_url_are_refused_unseen() {
        let error = StoreUrl::parse("s3://id:planted-secret@kv/a").unwrap_err();
        assert!(error.message().contains("access_key"), "{error}");
        assert!(!format!("{error:?}").contains("planted"));
    }
}

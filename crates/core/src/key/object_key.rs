use std::fmt;

use crate::{Error, ErrorKind};

/// An object's name in the bucket.
///
/// Two different keys must never become one object, and clients rewrite some names before they send them: empty, `.`
/// and `..` segments vanish on the way (seen with NIXL's AWS SDK). So the rule is checked once, here, and every name that
/// exists can be addressed exactly:
///
/// - at most 1,024 bytes of UTF-8, the limit of S3;
/// - segments between `/` are not empty, `.` or `..`, so there is no slash at either end;
/// - no ASCII control characters, which servers refuse or change.
///
/// Spaces and non-ASCII letters are fine.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Box<str>);

impl ObjectKey {
    /// Longest name, in bytes: the limit of S3.
    pub const NAME_BYTES_MAX: usize = 1024;
    /// How much of a refused name an error shows.
    const SHOWN_CHARS_MAX: usize = 100;

    /// A name that keeps the rule.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], saying what is wrong with the name.
    pub fn new(name: impl Into<Box<str>>) -> Result<Self, Error> {
        let name = name.into();
        match broken_rule(&name) {
            None => Ok(Self(name)),
            Some(why) => {
                let start: String = name.chars().take(Self::SHOWN_CHARS_MAX).collect();
                Err(Error::new(ErrorKind::Unsupported, format!("object name {start:?} {why}")))
            }
        }
    }

    /// A name whose maker has proved that it keeps the rule.
    pub(super) fn proved(name: String) -> Self {
        debug_assert_eq!(broken_rule(&name), None, "{name:?}");
        Self(name.into_boxed_str())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is wrong with a name.
pub(super) fn broken_rule(name: &str) -> Option<&'static str> {
    if name.len() > ObjectKey::NAME_BYTES_MAX {
        return Some("is longer than 1,024 bytes");
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return Some("has a control character");
    }
    name.split('/').find_map(|segment| match segment {
        "" => Some("has an empty segment"),
        "." | ".." => Some("has a segment of dots"),
        _ => None,
    })
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that some client would rewrite, or some server refuse, are refused with the reason.
    #[test]
    fn names_that_would_be_rewritten_are_refused() {
        for (name, why) in [
            ("", "empty segment"),
            ("/a", "empty segment"),
            ("a/", "empty segment"),
            ("a//b", "empty segment"),
            (".", "segment of dots"),
            ("a/./b", "segment of dots"),
            ("a/../b", "segment of dots"),
            ("a\0b", "control character"),
            ("a\nb", "control character"),
            ("a\x7Fb", "control character"),
        ] {
            let error = ObjectKey::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(why), "{error}");
        }
        assert!(ObjectKey::new("a".repeat(1025)).is_err());
    }

    /// Everything else is a name, up to the longest.
    #[test]
    fn other_names_are_kept_as_they_are() {
        let longest = "é".repeat(512);
        for name in ["a", "a/b", "...", "a/..b", "My Model/モデル", "a%2Fb?c#d+e\\", longest.as_str()] {
            assert_eq!(ObjectKey::new(name).unwrap().as_str(), name);
        }
    }
}

//! What a read says about its object: NIXL says neither how long the object was nor why a read failed, but both can be
//! seen in the buffer.

use kvtier_core::ErrorKind;
use kvtier_store::{error_code, judge_code};

/// How far past the end of the block a staged read asks.
pub(crate) const OVER_BYTES: usize = 16;
/// Where S3's error code is looked for in the body of a refusal. 150 bytes were the most seen in front of its end.
pub(crate) const HEAD_BYTES: usize = 512;
/// The period of the pattern, and how much of the block's own end it covers.
const PATTERN_BYTES: usize = 16;

/// Random bytes at the end of a buffer, which show how far a read wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canary([u8; PATTERN_BYTES]);

impl Canary {
    pub(crate) const fn new(pattern: [u8; PATTERN_BYTES]) -> Self {
        Self(pattern)
    }

    /// The pattern that agrees with this one nowhere.
    pub(crate) fn complement(self) -> Self {
        Self(self.0.map(|byte| !byte))
    }

    /// How many bytes at the end of a buffer of `len` carry the pattern when `over` of them are past the block's end.
    pub(crate) fn covers(over: usize, len: usize) -> usize {
        (over + PATTERN_BYTES).min(len)
    }

    pub(crate) fn fill(&self, tail: &mut [u8]) {
        let pattern = self.0.iter().cycle();
        tail.iter_mut().rev().zip(pattern).for_each(|(to, from)| *to = *from);
    }

    /// How many bytes at the end still carry the pattern.
    pub(crate) fn untouched(&self, tail: &[u8]) -> usize {
        tail.iter().rev().zip(self.0.iter().cycle()).take_while(|(is, was)| is == was).count()
    }
}

/// How long an object is, beside the block that it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Exact,
    Short,
    Long,
    /// The end of the block agrees with the pattern, or the object is short: read again with the complement.
    Unsure,
}

impl Length {
    /// Judges by the untouched bytes of a read that asked for `over` bytes more than the block.
    ///
    /// A short object leaves more than `over`, always. More than `over` may also be left by an honest one whose last bytes
    /// happen to agree with the pattern, which is not so with the complement. An object that is `n` bytes too long
    /// passes for exact if these agree with the pattern: once in 256 to the power of `n`.
    pub(crate) fn judge(untouched: usize, over: usize, is_second: bool) -> Self {
        match untouched.cmp(&over) {
            std::cmp::Ordering::Equal => Self::Exact,
            std::cmp::Ordering::Less => Self::Long,
            std::cmp::Ordering::Greater if is_second => Self::Short,
            std::cmp::Ordering::Greater => Self::Unsure,
        }
    }
}

/// S3's error code at the start of what a failed read left; empty if there is none.
pub(crate) fn refusal_code(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    // A part of a block is no refusal, whatever stands in it.
    if text.trim_start_matches('\u{feff}').starts_with('<') {
        error_code(&text).to_owned()
    } else {
        String::new()
    }
}

/// What a failed request means, by the code that S3 gave, if it gave one.
pub(crate) fn refused(code: &str) -> (ErrorKind, String) {
    let (kind, look) = judge_code(code).unwrap_or(match code {
        "" => (
            ErrorKind::Unavailable,
            "NIXL says no more than that it failed, and the store sent no reason; look at endpoint_override, scheme, \
             ca_bundle and whether the store runs",
        ),
        "InvalidRange" => (ErrorKind::Corrupt, "the object is empty"),
        "NotImplemented" | "MethodNotAllowed" | "InvalidArgument" | "InvalidRequest" | "EntityTooLarge" => {
            (ErrorKind::Unsupported, "")
        }
        _ => (ErrorKind::Unavailable, ""),
    });
    let parts = [code, look].into_iter().filter(|part| !part.is_empty());
    (kind, parts.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads an object of `len` bytes into a buffer for a block of `block`, as the plugin does.
    fn untouched(canary: Canary, object: &[u8], block: usize, over: usize) -> usize {
        let mut buffer = vec![0; block + over];
        let tail = buffer.len() - Canary::covers(over, buffer.len());
        canary.fill(&mut buffer[tail..]);
        let moved = object.len().min(buffer.len());
        buffer[..moved].copy_from_slice(&object[..moved]);
        canary.untouched(&buffer[tail..])
    }

    fn verdict(object: &[u8], block: usize, over: usize, canary: Canary) -> Length {
        match Length::judge(untouched(canary, object, block, over), over, false) {
            Length::Unsure => Length::judge(untouched(canary.complement(), object, block, over), over, true),
            sure => sure,
        }
    }

    proptest! {
        /// Whatever the bytes, an exact object is exact and a short one never is; nor is a long one, unless the
        /// bytes after the block agree with the pattern.
        #[test]
        fn lengths_are_told_apart(
            block in 1_usize..80,
            len in 0_usize..120,
            pattern: [u8; PATTERN_BYTES],
            bytes in proptest::collection::vec(0_u8..3, 120),
            over in prop::sample::select(vec![0, OVER_BYTES]),
        ) {
            let canary = Canary::new(pattern.map(|byte| byte % 3));
            let verdict = verdict(&bytes[..len], block, over, canary);
            if len < block {
                prop_assert_eq!(verdict, Length::Short);
            } else if len == block || over == 0 {
                prop_assert_eq!(verdict, Length::Exact);
            } else {
                let mut end = vec![0; over];
                canary.fill(&mut end);
                let seen = len.min(block + over) - block;
                let agrees = bytes[block..block + seen] == end[..seen];
                prop_assert!(agrees || verdict == Length::Long);
            }
        }
    }

    /// An honest block whose end is the pattern itself is read again and found exact.
    #[test]
    fn a_collision_is_resolved() {
        let canary = Canary::new([7; PATTERN_BYTES]);
        let block = [7; 64];
        assert!(untouched(canary, &block, 64, OVER_BYTES) > OVER_BYTES);
        assert_eq!(verdict(&block, 64, OVER_BYTES, canary), Length::Exact);
        assert_eq!(verdict(&block[..63], 64, OVER_BYTES, canary), Length::Short);
    }

    /// Codes become kinds; the bytes of a block that happen to hold one do not.
    #[test]
    fn codes_are_found_in_bodies_alone() {
        for (body, kind) in [
            ("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code>", ErrorKind::NotFound),
            ("<Error><Code>NoSuchBucket</Code></Error>", ErrorKind::Config),
            ("<Error><Code>AccessDenied</Code></Error>", ErrorKind::Denied),
            ("<Error><Code>SlowDown</Code></Error>", ErrorKind::Throttled),
            ("<Error><Code>InternalError</Code></Error>", ErrorKind::Unavailable),
            ("<Error><Code>InvalidRange</Code></Error>", ErrorKind::Corrupt),
            ("data<Code>NoSuchKey</Code>", ErrorKind::Unavailable),
            ("\0\0\0\0", ErrorKind::Unavailable),
        ] {
            let code = refusal_code(body.as_bytes());
            let (judged, why) = refused(&code);
            assert_eq!(judged, kind, "{body}: {why}");
            assert!(why.contains(&code));
        }
    }
}

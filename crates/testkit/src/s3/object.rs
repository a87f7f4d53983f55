//! One stored object.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use s3s::dto::{Checksum, ETag, Timestamp};

use super::attributes::Attributes;

/// An object as stored; never changed, only replaced.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) body: Bytes,
    pub(super) etag: ETag,
    /// In whole seconds, as HTTP dates are; finer times would never equal the client's `If-Modified-Since`.
    pub(super) last_modified: Timestamp,
    pub(super) attributes: Arc<Attributes>,
    /// The checksums the writer sent, all verified.
    pub(super) checksum: Checksum,
}

impl Object {
    pub(super) fn new(body: Bytes, etag: String, attributes: Arc<Attributes>, checksum: Checksum) -> Self {
        Self { body, etag: ETag::Strong(etag), last_modified: now(), attributes, checksum }
    }

    /// The size in bytes as S3 fields carry it.
    pub(super) fn size(&self) -> i64 {
        wire_length(self.body.len())
    }
}

/// A length in bytes as S3 fields carry it.
///
/// # Panics
///
/// Above `i64::MAX`, which no allocation reaches.
pub(super) fn wire_length(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("an allocation is at most isize::MAX bytes")
}

#[expect(clippy::disallowed_methods, reason = "Last-Modified is wall-clock time by definition")]
pub(super) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs()))
}

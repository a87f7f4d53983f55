//! Conditional requests (RFC 9110 section 13).

use s3s::dto::{ETagCondition, Timestamp};
use s3s::{S3Result, s3_error};

use super::object::Object;

/// Conditions of a write.
#[derive(Debug, Default)]
pub(super) struct WriteConditions {
    pub(super) if_match: Option<ETagCondition>,
    pub(super) if_none_match: Option<ETagCondition>,
}

impl WriteConditions {
    /// Whether the write may replace `current`.
    ///
    /// # Errors
    ///
    /// `PreconditionFailed` (412), `NoSuchKey` (404) for If-Match on a missing object, and `NotImplemented` (501) for
    /// If-None-Match with an ETag: all as S3 does for `PutObject`.
    pub(super) fn check(&self, current: Option<&Object>) -> S3Result<()> {
        match &self.if_none_match {
            None => {}
            Some(ETagCondition::Any) if current.is_none() => {}
            Some(ETagCondition::Any) => return Err(s3_error!(PreconditionFailed)),
            Some(ETagCondition::ETag(_)) => return Err(s3_error!(NotImplemented, "only If-None-Match: *")),
        }
        match (&self.if_match, current) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(s3_error!(NoSuchKey)),
            (Some(condition), Some(object)) if matches_strongly(condition, object) => Ok(()),
            (Some(_), Some(_)) => Err(s3_error!(PreconditionFailed)),
        }
    }
}

/// Conditions of a read.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the names of the headers")]
pub(super) struct ReadConditions {
    pub(super) if_match: Option<ETagCondition>,
    pub(super) if_none_match: Option<ETagCondition>,
    pub(super) if_modified_since: Option<Timestamp>,
    pub(super) if_unmodified_since: Option<Timestamp>,
}

impl ReadConditions {
    /// Whether the read is answered with the object, in the order of RFC 9110 section 13.2.2.
    ///
    /// # Errors
    ///
    /// `PreconditionFailed` (412) or `NotModified` (304).
    pub(super) fn check(&self, object: &Object) -> S3Result<()> {
        let stale = match (&self.if_match, &self.if_unmodified_since) {
            (Some(condition), _) => !matches_strongly(condition, object),
            (None, Some(time)) => object.last_modified > *time,
            (None, None) => false,
        };
        if stale {
            return Err(s3_error!(PreconditionFailed));
        }
        let unchanged = match (&self.if_none_match, &self.if_modified_since) {
            (Some(ETagCondition::Any), _) => true,
            (Some(ETagCondition::ETag(etag)), _) => etag.weak_cmp(&object.etag),
            (None, Some(time)) => object.last_modified <= *time,
            (None, None) => false,
        };
        if unchanged { Err(s3_error!(NotModified)) } else { Ok(()) }
    }
}

fn matches_strongly(condition: &ETagCondition, object: &Object) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(etag) => etag.strong_cmp(&object.etag),
    }
}

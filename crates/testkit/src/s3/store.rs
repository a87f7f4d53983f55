//! Buckets and objects in memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{Checksum, Timestamp};
use s3s::{S3Result, s3_error};

use super::attributes::Attributes;
use super::conditions::WriteConditions;
use super::list::{Page, Query};
use super::object::{Object, now};

/// Where the ETag of an object comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EtagSource {
    /// A number that grows with every write. Costs nothing.
    #[default]
    Counter,
    /// The MD5 of the body, as S3 does it for single PUTs; for a multipart object `-` and the number of parts follow.
    /// Costs about 2 ms per MiB.
    Md5,
}

/// The objects of an [`S3Server`](super::S3Server), reached without HTTP.
///
/// Changes are visible to the next request. Nothing here counts as a request.
#[derive(Debug)]
pub struct Store {
    etag_source: EtagSource,
    etag_count: AtomicU64,
    /// Locked for map operations only: no hashing, copying or waiting under it.
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    created: Timestamp,
    objects: BTreeMap<String, Arc<Object>>,
}

impl Bucket {
    fn new() -> Self {
        Self { created: now(), objects: BTreeMap::new() }
    }
}

impl Store {
    pub(super) fn new<'a>(etag_source: EtagSource, buckets: impl Iterator<Item = &'a str>) -> Self {
        let buckets = buckets.map(|name| (name.to_owned(), Bucket::new())).collect();
        Self { etag_source, etag_count: AtomicU64::new(0), buckets: Mutex::new(buckets) }
    }

    /// The body of an object; `None` if there is no such object or bucket. Copies nothing.
    pub fn get(&self, bucket: &str, key: &str) -> Option<Bytes> {
        Some(self.buckets.lock().get(bucket)?.objects.get(key)?.body.clone())
    }

    /// Puts an object, replacing what was there.
    ///
    /// # Panics
    ///
    /// When there is no such bucket.
    pub fn insert(&self, bucket: &str, key: &str, body: impl Into<Bytes>) {
        let object = self.object(body.into(), Arc::default(), Checksum::default());
        let mut buckets = self.buckets.lock();
        let bucket = buckets.get_mut(bucket).unwrap_or_else(|| panic!("no bucket {bucket:?}"));
        bucket.objects.insert(key.to_owned(), object);
    }

    /// Takes an object out; `None` if there was no such object or bucket.
    pub fn remove(&self, bucket: &str, key: &str) -> Option<Bytes> {
        Some(self.buckets.lock().get_mut(bucket)?.objects.remove(key)?.body.clone())
    }

    /// The keys of a bucket in byte order; empty if there is no such bucket.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        self.buckets
            .lock()
            .get(bucket)
            .map(|bucket| bucket.objects.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// A new object with its ETag.
    pub(super) fn object(&self, body: Bytes, attributes: Arc<Attributes>, checksum: Checksum) -> Arc<Object> {
        let etag = self.etag_for(&body);
        Arc::new(Object::new(body, etag, attributes, checksum))
    }

    /// The ETag of a new body.
    pub(super) fn etag_for(&self, body: &[u8]) -> String {
        match self.etag_source {
            EtagSource::Counter => self.etag_count.fetch_add(1, Ordering::Relaxed).to_string(),
            EtagSource::Md5 => hex(&Md5::checksum(body)),
        }
    }

    pub(super) fn put(
        &self,
        bucket: &str,
        key: String,
        object: Arc<Object>,
        conditions: &WriteConditions,
    ) -> S3Result<()> {
        self.with_bucket(bucket, |bucket| {
            conditions.check(bucket.objects.get(&key).map(Arc::as_ref))?;
            bucket.objects.insert(key, object);
            Ok(())
        })
    }

    pub(super) fn find(&self, bucket: &str, key: &str) -> S3Result<Arc<Object>> {
        self.with_bucket(bucket, |bucket| {
            bucket.objects.get(key).map(Arc::clone).ok_or_else(|| s3_error!(NoSuchKey))
        })
    }

    /// Removes objects, whether they exist or not.
    pub(super) fn delete<'a>(&self, bucket: &str, keys: impl Iterator<Item = &'a str>) -> S3Result<()> {
        self.with_bucket(bucket, |bucket| {
            for key in keys {
                bucket.objects.remove(key);
            }
            Ok(())
        })
    }

    pub(super) fn list(&self, bucket: &str, query: &Query<'_>) -> S3Result<Page> {
        self.with_bucket(bucket, |bucket| Ok(Page::new(&bucket.objects, query)))
    }

    pub(super) fn check_bucket(&self, bucket: &str) -> S3Result<()> {
        self.with_bucket(bucket, |_| Ok(()))
    }

    /// The buckets with the times they were created.
    pub(super) fn buckets(&self) -> Vec<(String, Timestamp)> {
        self.buckets.lock().iter().map(|(name, bucket)| (name.clone(), bucket.created.clone())).collect()
    }

    pub(super) fn create_bucket(&self, bucket: String) -> S3Result<()> {
        let mut buckets = self.buckets.lock();
        if buckets.contains_key(&bucket) {
            return Err(s3_error!(BucketAlreadyOwnedByYou));
        }
        buckets.insert(bucket, Bucket::new());
        Ok(())
    }

    pub(super) fn delete_bucket(&self, bucket: &str) -> S3Result<()> {
        let mut buckets = self.buckets.lock();
        match buckets.get(bucket) {
            None => Err(s3_error!(NoSuchBucket)),
            Some(bucket) if !bucket.objects.is_empty() => Err(s3_error!(BucketNotEmpty)),
            Some(_) => {
                buckets.remove(bucket);
                Ok(())
            }
        }
    }

    fn with_bucket<T>(&self, bucket: &str, act: impl FnOnce(&mut Bucket) -> S3Result<T>) -> S3Result<T> {
        act(self.buckets.lock().get_mut(bucket).ok_or_else(|| s3_error!(NoSuchBucket))?)
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(digest.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

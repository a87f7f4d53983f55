//! Multipart uploads.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use s3s::dto::{Checksum, CompletedPart, ETag};
use s3s::{S3Result, s3_error};

use super::attributes::Attributes;
use super::conditions::WriteConditions;
use super::object::Object;
use super::store::Store;

/// Smallest part in bytes, the last one excepted, as S3 has it.
const PART_BYTES_MIN: usize = 5 << 20;

/// The uploads that are neither complete nor aborted.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    open: Mutex<OpenUploads>,
}

#[derive(Debug, Default)]
struct OpenUploads {
    started: u64,
    by_id: HashMap<String, Upload>,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    attributes: Arc<Attributes>,
    parts: BTreeMap<i32, Part>,
}

#[derive(Debug, Clone)]
struct Part {
    body: Bytes,
    etag: String,
}

/// What names an open upload: the id alone is not enough for S3, all three must fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct UploadName<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    pub(super) id: &'a str,
}

impl Uploads {
    /// Opens an upload and gives back its id.
    pub(super) fn create(&self, bucket: String, key: String, attributes: Attributes) -> String {
        let mut open = self.open.lock();
        open.started += 1;
        let id = format!("upload-{}", open.started);
        let upload = Upload { bucket, key, attributes: Arc::new(attributes), parts: BTreeMap::new() };
        open.by_id.insert(id.clone(), upload);
        id
    }

    /// Keeps one part, replacing an earlier one with its number.
    pub(super) fn add_part(
        &self,
        name: UploadName<'_>,
        number: i32,
        body: Bytes,
        etag: String,
    ) -> S3Result<()> {
        self.with_upload(name, |upload| {
            upload.parts.insert(number, Part { body, etag });
            Ok(())
        })
    }

    /// Makes an object of the listed parts; the upload stays open if that fails.
    pub(super) fn complete(
        &self,
        name: UploadName<'_>,
        listed: &[CompletedPart],
        conditions: &WriteConditions,
        store: &Store,
    ) -> S3Result<Arc<Object>> {
        let (parts, attributes) = self.with_upload(name, |upload| {
            Ok((select_parts(&upload.parts, listed)?, Arc::clone(&upload.attributes)))
        })?;
        let mut body = BytesMut::with_capacity(parts.iter().map(|part| part.body.len()).sum());
        for part in &parts {
            body.extend_from_slice(&part.body);
        }
        let etag = format!("{}-{}", store.etag_for(&body), parts.len());
        let object = Arc::new(Object::new(body.freeze(), etag, attributes, Checksum::default()));
        store.put(name.bucket, name.key.to_owned(), Arc::clone(&object), conditions)?;
        self.open.lock().by_id.remove(name.id);
        Ok(object)
    }

    /// Forgets an upload and its parts.
    pub(super) fn abort(&self, name: UploadName<'_>) -> S3Result<()> {
        self.with_upload(name, |_| Ok(()))?;
        self.open.lock().by_id.remove(name.id);
        Ok(())
    }

    fn with_upload<T>(
        &self,
        name: UploadName<'_>,
        act: impl FnOnce(&mut Upload) -> S3Result<T>,
    ) -> S3Result<T> {
        let mut open = self.open.lock();
        let upload = open.by_id.get_mut(name.id);
        let upload = upload.filter(|upload| upload.bucket == name.bucket && upload.key == name.key);
        act(upload.ok_or_else(|| s3_error!(NoSuchUpload))?)
    }
}

fn select_parts(held: &BTreeMap<i32, Part>, listed: &[CompletedPart]) -> S3Result<Vec<Part>> {
    if listed.is_empty() {
        return Err(s3_error!(MalformedXML, "no parts are listed"));
    }
    if !listed.is_sorted_by(|a, b| a.part_number < b.part_number) {
        return Err(s3_error!(InvalidPartOrder));
    }
    let mut parts = Vec::with_capacity(listed.len());
    for wanted in listed {
        let part = wanted.part_number.and_then(|number| held.get(&number));
        let part = part.filter(|part| wanted.e_tag.as_ref().map(ETag::value) == Some(part.etag.as_str()));
        parts.push(part.ok_or_else(|| s3_error!(InvalidPart))?.clone());
    }
    if parts[..parts.len() - 1].iter().any(|part| part.body.len() < PART_BYTES_MIN) {
        return Err(s3_error!(EntityTooSmall));
    }
    Ok(parts)
}

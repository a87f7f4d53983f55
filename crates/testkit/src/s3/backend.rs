//! The S3 operations, each a translation between s3s' types and the store.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use s3s::dto;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use super::attributes::Attributes;
use super::body::Upload;
use super::conditions::{ReadConditions, WriteConditions};
use super::list::Query;
use super::multipart::{UploadName, Uploads};
use super::object::{Object, wire_length};
use super::store::Store;

/// Most entries on a page, whatever the client asks for, as S3 has it.
const PAGE_ENTRIES_MAX: i32 = 1000;

/// The operations this server knows; s3s answers all others with 501 `NotImplemented`.
#[derive(Debug)]
pub(super) struct Backend {
    store: Arc<Store>,
    uploads: Uploads,
}

impl Backend {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, uploads: Uploads::default() }
    }
}

/// `GetObject` and `HeadObject` share these fields by name, not by trait.
macro_rules! read_conditions {
    ($input:expr) => {
        ReadConditions {
            if_match: $input.if_match.take(),
            if_none_match: $input.if_none_match.take(),
            if_modified_since: $input.if_modified_since.take(),
            if_unmodified_since: $input.if_unmodified_since.take(),
        }
    };
}

macro_rules! upload_name {
    ($input:expr) => {
        UploadName { bucket: &$input.bucket, key: &$input.key, id: &$input.upload_id }
    };
}

/// Writes the checksums kept with an object into an answer.
macro_rules! write_checksum {
    ($checksum:expr, $output:expr) => {{
        $output.checksum_crc32.clone_from(&$checksum.checksum_crc32);
        $output.checksum_crc32c.clone_from(&$checksum.checksum_crc32c);
        $output.checksum_crc64nvme.clone_from(&$checksum.checksum_crc64nvme);
        $output.checksum_sha1.clone_from(&$checksum.checksum_sha1);
        $output.checksum_sha256.clone_from(&$checksum.checksum_sha256);
    }};
}

type Answer<T> = S3Result<S3Response<T>>;

#[async_trait::async_trait]
impl S3 for Backend {
    async fn put_object(&self, mut request: S3Request<dto::PutObjectInput>) -> Answer<dto::PutObjectOutput> {
        let (body, checksum) = Upload::of_put(&mut request).read().await?;
        let mut input = request.input;
        let attributes = Arc::new(Attributes::of_put(&mut input));
        let conditions = WriteConditions { if_match: input.if_match, if_none_match: input.if_none_match };
        let object = self.store.object(body, attributes, checksum);
        self.store.put(&input.bucket, input.key, Arc::clone(&object), &conditions)?;
        let mut output = dto::PutObjectOutput { e_tag: Some(object.etag.clone()), ..Default::default() };
        write_checksum!(object.checksum, output);
        Ok(S3Response::new(output))
    }

    async fn get_object(&self, request: S3Request<dto::GetObjectInput>) -> Answer<dto::GetObjectOutput> {
        let mut input = request.input;
        let object = self.store.find(&input.bucket, &input.key)?;
        read_conditions!(input).check(&object)?;
        let (body, content_range) = match input.range {
            None => (object.body.clone(), None),
            Some(range) => {
                let (part, content_range) = slice(&object, range)?;
                (part, Some(content_range))
            }
        };
        let mut output = dto::GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(wire_length(body.len())),
            e_tag: Some(object.etag.clone()),
            last_modified: Some(object.last_modified.clone()),
            ..Default::default()
        };
        object.attributes.write_to_get(&mut output);
        // They cover the whole object, so a client would find them wrong for a part of it.
        if wants_checksum(input.checksum_mode.as_ref()) && content_range.is_none() {
            write_checksum!(object.checksum, output);
        }
        output.content_range = content_range;
        output.body = Some(dto::StreamingBlob::from(s3s::Body::from(body)));
        Ok(S3Response::new(output))
    }

    async fn head_object(&self, request: S3Request<dto::HeadObjectInput>) -> Answer<dto::HeadObjectOutput> {
        let mut input = request.input;
        let object = self.store.find(&input.bucket, &input.key)?;
        read_conditions!(input).check(&object)?;
        let mut output = dto::HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(object.size()),
            e_tag: Some(object.etag.clone()),
            last_modified: Some(object.last_modified.clone()),
            ..Default::default()
        };
        object.attributes.write_to_head(&mut output);
        if wants_checksum(input.checksum_mode.as_ref()) {
            write_checksum!(object.checksum, output);
        }
        Ok(S3Response::new(output))
    }

    async fn delete_object(
        &self,
        request: S3Request<dto::DeleteObjectInput>,
    ) -> Answer<dto::DeleteObjectOutput> {
        self.store.delete(&request.input.bucket, std::iter::once(request.input.key.as_str()))?;
        Ok(S3Response::new(dto::DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<dto::DeleteObjectsInput>,
    ) -> Answer<dto::DeleteObjectsOutput> {
        let delete = request.input.delete;
        self.store.delete(&request.input.bucket, delete.objects.iter().map(|object| object.key.as_str()))?;
        let deleted = (!delete.quiet.unwrap_or(false)).then(|| {
            let named = |object: dto::ObjectIdentifier| dto::DeletedObject {
                key: Some(object.key),
                ..Default::default()
            };
            delete.objects.into_iter().map(named).collect()
        });
        Ok(S3Response::new(dto::DeleteObjectsOutput { deleted, ..Default::default() }))
    }

    async fn copy_object(&self, request: S3Request<dto::CopyObjectInput>) -> Answer<dto::CopyObjectOutput> {
        let mut input = request.input;
        let dto::CopySource::Bucket { bucket, key, .. } = &input.copy_source else {
            return Err(s3_error!(NotImplemented, "only bucket/key copy sources"));
        };
        let source = self.store.find(bucket, key)?;
        let conditions = ReadConditions {
            if_match: input.copy_source_if_match.take(),
            if_none_match: input.copy_source_if_none_match.take(),
            if_modified_since: input.copy_source_if_modified_since.take(),
            if_unmodified_since: input.copy_source_if_unmodified_since.take(),
        };
        // A copy is a write: S3 has no 304 here.
        conditions.check(&source).map_err(|_| s3_error!(PreconditionFailed))?;
        let replace = input.metadata_directive.as_ref().map(dto::MetadataDirective::as_str);
        let attributes = if replace == Some(dto::MetadataDirective::REPLACE) {
            Arc::new(Attributes::of_copy(&mut input))
        } else {
            Arc::clone(&source.attributes)
        };
        let object = self.store.object(source.body.clone(), attributes, source.checksum.clone());
        self.store.put(&input.bucket, input.key, Arc::clone(&object), &WriteConditions::default())?;
        let result = dto::CopyObjectResult {
            e_tag: Some(object.etag.clone()),
            last_modified: Some(object.last_modified.clone()),
            ..Default::default()
        };
        Ok(S3Response::new(dto::CopyObjectOutput { copy_object_result: Some(result), ..Default::default() }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<dto::ListObjectsV2Input>,
    ) -> Answer<dto::ListObjectsV2Output> {
        let input = request.input;
        let max_keys = input.max_keys.unwrap_or(PAGE_ENTRIES_MAX).clamp(0, PAGE_ENTRIES_MAX);
        let resumed = input.continuation_token.as_deref().map(after_of_token).transpose()?;
        let query = Query {
            prefix: input.prefix.as_deref().unwrap_or(""),
            delimiter: input.delimiter.as_deref().unwrap_or(""),
            after: resumed.as_deref().or(input.start_after.as_deref()).unwrap_or(""),
            entry_count_max: usize::try_from(max_keys).unwrap_or(0),
        };
        let page = self.store.list(&input.bucket, &query)?;
        let count = page.objects.len() + page.common_prefixes.len();
        let common_prefixes = page.common_prefixes.into_iter();
        Ok(S3Response::new(dto::ListObjectsV2Output {
            key_count: i32::try_from(count).ok(),
            max_keys: Some(max_keys),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.map(|after| BASE64.encode(after)),
            contents: Some(page.objects.into_iter().map(listed).collect()),
            common_prefixes: Some(
                common_prefixes.map(|prefix| dto::CommonPrefix { prefix: Some(prefix) }).collect(),
            ),
            name: Some(input.bucket),
            prefix: input.prefix,
            delimiter: input.delimiter,
            continuation_token: input.continuation_token,
            start_after: input.start_after,
            ..Default::default()
        }))
    }

    async fn create_bucket(
        &self,
        request: S3Request<dto::CreateBucketInput>,
    ) -> Answer<dto::CreateBucketOutput> {
        let location = format!("/{}", request.input.bucket);
        self.store.create_bucket(request.input.bucket)?;
        Ok(S3Response::new(dto::CreateBucketOutput { location: Some(location) }))
    }

    async fn head_bucket(&self, request: S3Request<dto::HeadBucketInput>) -> Answer<dto::HeadBucketOutput> {
        self.store.check_bucket(&request.input.bucket)?;
        Ok(S3Response::new(dto::HeadBucketOutput::default()))
    }

    async fn delete_bucket(
        &self,
        request: S3Request<dto::DeleteBucketInput>,
    ) -> Answer<dto::DeleteBucketOutput> {
        self.store.delete_bucket(&request.input.bucket)?;
        Ok(S3Response::new(dto::DeleteBucketOutput::default()))
    }

    async fn list_buckets(&self, _: S3Request<dto::ListBucketsInput>) -> Answer<dto::ListBucketsOutput> {
        let named = |(name, created)| dto::Bucket {
            name: Some(name),
            creation_date: Some(created),
            ..Default::default()
        };
        let buckets = self.store.buckets().into_iter().map(named).collect();
        Ok(S3Response::new(dto::ListBucketsOutput { buckets: Some(buckets), ..Default::default() }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<dto::CreateMultipartUploadInput>,
    ) -> Answer<dto::CreateMultipartUploadOutput> {
        let mut input = request.input;
        self.store.check_bucket(&input.bucket)?;
        let attributes = Attributes::of_multipart(&mut input);
        let id = self.uploads.create(input.bucket.clone(), input.key.clone(), attributes);
        Ok(S3Response::new(dto::CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..Default::default()
        }))
    }

    async fn upload_part(
        &self,
        mut request: S3Request<dto::UploadPartInput>,
    ) -> Answer<dto::UploadPartOutput> {
        let (body, checksum) = Upload::of_part(&mut request).read().await?;
        let input = request.input;
        let etag = self.store.etag_for(&body);
        self.uploads.add_part(upload_name!(input), input.part_number, body, etag.clone())?;
        let mut output = dto::UploadPartOutput { e_tag: Some(dto::ETag::Strong(etag)), ..Default::default() };
        write_checksum!(checksum, output);
        Ok(S3Response::new(output))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<dto::CompleteMultipartUploadInput>,
    ) -> Answer<dto::CompleteMultipartUploadOutput> {
        let mut input = request.input;
        let listed = input.multipart_upload.take().and_then(|upload| upload.parts).unwrap_or_default();
        let conditions =
            WriteConditions { if_match: input.if_match.take(), if_none_match: input.if_none_match.take() };
        let object = self.uploads.complete(upload_name!(input), &listed, &conditions, &self.store)?;
        Ok(S3Response::new(dto::CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{}", input.bucket, input.key)),
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(object.etag.clone()),
            ..Default::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<dto::AbortMultipartUploadInput>,
    ) -> Answer<dto::AbortMultipartUploadOutput> {
        self.uploads.abort(upload_name!(request.input))?;
        Ok(S3Response::new(dto::AbortMultipartUploadOutput::default()))
    }
}

/// The requested part of an object, without copying, and its `Content-Range`.
fn slice(object: &Object, range: dto::Range) -> S3Result<(bytes::Bytes, String)> {
    let full_length = object.body.len();
    let bytes = range.check(full_length as u64)?;
    let content_range = format!("bytes {}-{}/{full_length}", bytes.start, bytes.end - 1);
    // `check` cut the range to the object, whose length is a `usize`.
    let index = |at| usize::try_from(at).map_err(|_| s3_error!(InvalidRange));
    Ok((object.body.slice(index(bytes.start)?..index(bytes.end)?), content_range))
}

fn wants_checksum(mode: Option<&dto::ChecksumMode>) -> bool {
    mode.is_some_and(|mode| mode.as_str() == dto::ChecksumMode::ENABLED)
}

fn listed((key, object): (String, Arc<Object>)) -> dto::Object {
    dto::Object {
        key: Some(key),
        e_tag: Some(object.etag.clone()),
        last_modified: Some(object.last_modified.clone()),
        size: Some(object.size()),
        ..Default::default()
    }
}

fn after_of_token(token: &str) -> S3Result<String> {
    let bytes = BASE64.decode(token).map_err(|_| s3_error!(InvalidArgument, "unknown continuation token"))?;
    String::from_utf8(bytes).map_err(|_| s3_error!(InvalidArgument, "unknown continuation token"))
}

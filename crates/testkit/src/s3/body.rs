//! Request bodies: read whole, then checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode};
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{Checksum, PutObjectInput, StreamingBlob, UploadPartInput};
use s3s::stream::ByteStream as _;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};

/// Most bytes reserved before any arrived, so that a false Content-Length costs no memory.
const RESERVED_BYTES_MAX: usize = 64 << 20;

/// A request body and what its sender claims about it.
#[derive(Debug)]
pub(super) struct Upload {
    body: Option<StreamingBlob>,
    content_md5: Option<String>,
    claimed: Checksum,
    trailers: Option<s3s::TrailingHeaders>,
}

/// `PutObject` and `UploadPart` share these fields by name, not by trait.
macro_rules! upload_of {
    ($request:expr) => {{
        let input = &mut $request.input;
        Upload {
            body: input.body.take(),
            content_md5: input.content_md5.take(),
            claimed: Checksum {
                checksum_crc32: input.checksum_crc32.take(),
                checksum_crc32c: input.checksum_crc32c.take(),
                checksum_crc64nvme: input.checksum_crc64nvme.take(),
                checksum_sha1: input.checksum_sha1.take(),
                checksum_sha256: input.checksum_sha256.take(),
                checksum_type: None,
            },
            trailers: $request.trailing_headers.take(),
        }
    }};
}

impl Upload {
    pub(super) fn of_put(request: &mut S3Request<PutObjectInput>) -> Self {
        upload_of!(request)
    }

    pub(super) fn of_part(request: &mut S3Request<UploadPartInput>) -> Self {
        upload_of!(request)
    }

    /// Reads the body and checks it; gives it back in one piece with the checksums that were sent.
    ///
    /// # Errors
    ///
    /// `IncompleteBody`, `XAmzContentSHA256Mismatch` or `BadDigest`, all 400.
    pub(super) async fn read(mut self) -> S3Result<(Bytes, Checksum)> {
        let body = match self.body.take() {
            Some(body) => read_whole(body).await?,
            None => Bytes::new(),
        };
        if let Some(content_md5) = &self.content_md5
            && *content_md5 != BASE64.encode(Md5::checksum(&body))
        {
            return Err(s3_error!(BadDigest, "Content-MD5 does not match the body"));
        }
        if let Some(trailers) = self.trailers.take() {
            trailers.read(|headers| add_claims(&mut self.claimed, headers));
        }
        if computed(&self.claimed, &body) != self.claimed {
            return Err(s3_error!(BadDigest, "an x-amz-checksum value does not match the body"));
        }
        Ok((body, self.claimed))
    }
}

async fn read_whole(mut stream: StreamingBlob) -> S3Result<Bytes> {
    let announced = stream.remaining_length().exact();
    // One copy per body, on purpose: the chunks are slices of the connection's read buffer and would keep it alive.
    let mut body = BytesMut::with_capacity(announced.unwrap_or(0).min(RESERVED_BYTES_MAX));
    while let Some(chunk) = stream.next().await {
        body.extend_from_slice(&chunk.map_err(|error| unreadable(&error.to_string()))?);
    }
    // s3s does not compare an aws-chunked body with its `x-amz-decoded-content-length`.
    if announced.is_some_and(|announced| announced != body.len()) {
        return Err(s3_error!(IncompleteBody));
    }
    Ok(body.freeze())
}

/// The error type of s3s' body streams is private, so its text decides.
fn unreadable(error: &str) -> S3Error {
    if !error.contains("Sha256Mismatch") {
        return S3Error::with_message(S3ErrorCode::IncompleteBody, error.to_owned());
    }
    let mut mismatch = S3Error::new(S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into()));
    mismatch.set_status_code(StatusCode::BAD_REQUEST);
    mismatch
}

fn add_claims(claimed: &mut Checksum, trailers: &HeaderMap) {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    for (field, name) in [
        (&mut claimed.checksum_crc32, "x-amz-checksum-crc32"),
        (&mut claimed.checksum_crc32c, "x-amz-checksum-crc32c"),
        (&mut claimed.checksum_crc64nvme, "x-amz-checksum-crc64nvme"),
        (&mut claimed.checksum_sha1, "x-amz-checksum-sha1"),
        (&mut claimed.checksum_sha256, "x-amz-checksum-sha256"),
    ] {
        if let Some(value) = text(name) {
            *field = Some(value);
        }
    }
}

/// The checksums of `body` for the algorithms that `claimed` names.
fn computed(claimed: &Checksum, body: &[u8]) -> Checksum {
    let mut hasher = ChecksumHasher {
        crc32: claimed.checksum_crc32.as_ref().map(|_| s3s::crypto::Crc32::new()),
        crc32c: claimed.checksum_crc32c.as_ref().map(|_| s3s::crypto::Crc32c::new()),
        crc64nvme: claimed.checksum_crc64nvme.as_ref().map(|_| s3s::crypto::Crc64Nvme::new()),
        sha1: claimed.checksum_sha1.as_ref().map(|_| s3s::crypto::Sha1::new()),
        sha256: claimed.checksum_sha256.as_ref().map(|_| s3s::crypto::Sha256::new()),
    };
    hasher.update(body);
    hasher.finalize()
}

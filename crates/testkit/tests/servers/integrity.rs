//! Bodies that are not what their sender claims are refused and leave no object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kvtier_testkit::S3Server;
use object_store::ObjectStoreExt as _;
use object_store::aws::Checksum as Algorithm;
use object_store::path::Path;
use s3s::crypto::{Checksum, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::authorized;
use crate::wire::{Request, assert_status};

const BODY: &[u8] = b"what was meant";
/// As long as [`BODY`].
const DAMAGED: &[u8] = b"what was sent.";

fn digest<C: Checksum>(body: &[u8]) -> String {
    BASE64.encode(C::checksum(body))
}

#[track_caller]
fn assert_refused(server: &S3Server, answer: &str, code: &str) {
    assert_status(answer, 400);
    assert!(answer.contains(&format!("<Code>{code}</Code>")), "{answer}");
    assert_eq!(server.store().keys(server.bucket()), [""; 0]);
}

#[track_caller]
fn assert_taken(server: &S3Server, answer: &str) {
    assert_status(answer, 200);
    assert_eq!(server.store().remove(server.bucket(), "key").unwrap(), BODY);
}

/// A body that differs from the signed SHA-256 is refused; the true one is taken.
#[tokio::test]
async fn signed_sha256() {
    let server = S3Server::start().await.unwrap();
    let put = Request::put(&server, "key", BODY);
    assert_taken(&server, &put.clone().send(&server, BODY).await);
    assert_refused(&server, &put.send(&server, DAMAGED).await, "XAmzContentSHA256Mismatch");
}

/// Content-MD5 and all five checksum headers catch a damaged body where the signature does not cover it.
#[tokio::test]
async fn digest_headers() {
    let server = S3Server::start().await.unwrap();
    let put = Request { payload: "UNSIGNED-PAYLOAD".into(), ..Request::put(&server, "key", BODY) };
    for (header, value) in [
        ("content-md5", digest::<Md5>(BODY)),
        ("x-amz-checksum-crc32", digest::<Crc32>(BODY)),
        ("x-amz-checksum-crc32c", digest::<Crc32c>(BODY)),
        ("x-amz-checksum-crc64nvme", digest::<Crc64Nvme>(BODY)),
        ("x-amz-checksum-sha1", digest::<Sha1>(BODY)),
        ("x-amz-checksum-sha256", digest::<Sha256>(BODY)),
    ] {
        let put = put.clone().with(header, value);
        assert_taken(&server, &put.clone().send(&server, BODY).await);
        assert_refused(&server, &put.send(&server, DAMAGED).await, "BadDigest");
    }
    // Negative control: with no digest at all the damage goes unnoticed.
    assert_status(&put.send(&server, DAMAGED).await, 200);
}

/// `body` as aws-chunked inside HTTP chunks, with the CRC64 of [`BODY`] in the trailer.
fn framed(body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let crc = digest::<Crc64Nvme>(BODY);
    let inner = format!("{:x}\r\n{text}\r\n0\r\nx-amz-checksum-crc64nvme:{crc}\r\n\r\n", body.len());
    format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len()).into_bytes()
}

/// The default PUT of the AWS SDKs (no Content-Length, unsigned, CRC64 in the trailer): a true one is taken, without
/// `aws-chunked` becoming an encoding of the object; a damaged body and a false length are refused.
#[tokio::test]
async fn checksum_trailer() {
    let server = S3Server::start().await.unwrap();
    let length = "x-amz-decoded-content-length";
    let mut put = Request::put(&server, "key", BODY)
        .with("transfer-encoding", "chunked")
        .with("content-encoding", "aws-chunked")
        .with("x-amz-trailer", "x-amz-checksum-crc64nvme")
        .with(length, BODY.len().to_string());
    put.payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER".into();
    put.headers.retain(|(name, _)| *name != "content-length");

    let answer = put.clone().send(&server, &framed(BODY)).await;
    let read = Request::get(&server, "key").send(&server, b"").await;
    assert!(!read.contains("content-encoding"), "{read}");
    assert_taken(&server, &answer);
    assert_refused(&server, &put.clone().send(&server, &framed(DAMAGED)).await, "BadDigest");
    let longer = put.with(length, (BODY.len() + 1).to_string());
    assert_refused(&server, &longer.send(&server, &framed(BODY)).await, "IncompleteBody");
}

/// A client's own checksums pass, for single and multipart writes.
#[tokio::test]
async fn client_checksums() {
    let server = S3Server::start().await.unwrap();
    for algorithm in [Algorithm::SHA256, Algorithm::CRC64NVME] {
        let client = authorized(&server).with_checksum_algorithm(algorithm).build().unwrap();
        client.put(&Path::from("single"), BODY.into()).await.unwrap();
        let mut upload = client.put_multipart(&Path::from("parts")).await.unwrap();
        upload.put_part(BODY.into()).await.unwrap();
        upload.complete().await.unwrap();
        assert_eq!(client.get(&Path::from("parts")).await.unwrap().bytes().await.unwrap(), BODY);
    }
}

/// A writer that leaves in the middle of its body leaves no object and keeps the old one whole.
#[tokio::test]
async fn half_sent_put() {
    let server = S3Server::start().await.unwrap();
    server.store().insert(server.bucket(), "old", "old body");
    for key in ["new", "old"] {
        for payload in [None, Some("UNSIGNED-PAYLOAD".to_owned())] {
            let mut put = Request::put(&server, key, BODY);
            put.payload = payload.unwrap_or(put.payload);
            let mut stream = TcpStream::connect(server.addr()).await.unwrap();
            stream.write_all(&put.signed(&server)).await.unwrap();
            stream.write_all(&BODY[..BODY.len() / 2]).await.unwrap();
            // The server's answer or close is the sign that it has dealt with the end of the stream.
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
        }
    }
    assert_eq!(server.requests().put, 4);
    assert_eq!(server.store().keys(server.bucket()), ["old"]);
    assert_eq!(server.store().get(server.bucket(), "old").unwrap(), "old body");
}

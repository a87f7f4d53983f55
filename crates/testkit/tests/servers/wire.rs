//! Requests written by hand, signed with SigV4
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>).

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::SystemTime;

use kvtier_testkit::S3Server;
use s3s::crypto::{Checksum as _, Sha256};
use s3s::dto::{Timestamp, TimestampFormat};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request before it is signed. Only `x-amz-*` headers and `host` are signed.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) bucket: String,
    pub(crate) key: String,
    /// The value of `x-amz-content-sha256`.
    pub(crate) payload: String,
    /// Lower-case names, in any order.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Request {
    /// A PUT that declares `body` truthfully; tests then change what they want to be wrong.
    pub(crate) fn put(server: &S3Server, key: &str, body: &[u8]) -> Self {
        Self {
            method: "PUT",
            bucket: server.bucket().to_owned(),
            key: key.to_owned(),
            payload: hex(&Sha256::checksum(body)),
            headers: vec![("content-length", body.len().to_string())],
        }
    }

    pub(crate) fn get(server: &S3Server, key: &str) -> Self {
        Self {
            method: "GET",
            bucket: server.bucket().to_owned(),
            key: key.to_owned(),
            payload: hex(&Sha256::checksum(b"")),
            headers: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(existing, _)| *existing != name);
        self.headers.push((name, value.into()));
        self
    }

    /// The head of the request as it goes over the wire.
    pub(crate) fn signed(mut self, server: &S3Server) -> Vec<u8> {
        let time = timestamp();
        let scope = format!("{}/{}/s3/aws4_request", &time[..8], server.region());
        self.headers.push(("host", server.addr().to_string()));
        self.headers.push(("x-amz-content-sha256", self.payload.clone()));
        self.headers.push(("x-amz-date", time.clone()));
        self.headers.sort();
        let signed = self.headers.iter().filter(|(name, _)| *name == "host" || name.starts_with("x-amz-"));
        let (mut lines, mut names) = (String::new(), Vec::new());
        for (name, value) in signed {
            writeln!(lines, "{name}:{value}").unwrap();
            names.push(*name);
        }
        let names = names.join(";");
        let path = format!("/{}/{}", self.bucket, encode(&self.key));
        let canonical = format!("{}\n{path}\n\n{lines}\n{names}\n{}", self.method, self.payload);
        let to_sign =
            format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::checksum(canonical.as_bytes())));
        let signature = hex(&hmac(&signing_key(server, &time[..8]), to_sign.as_bytes()));
        let mut head = format!("{} {path} HTTP/1.1\r\n", self.method);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        let credential = format!("{}/{scope}", server.access_key());
        write!(
            head,
            "authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}\r\n\
             connection: close\r\n\r\n"
        )
        .unwrap();
        head.into_bytes()
    }

    /// Sends the request with `body` and gives back the whole answer.
    pub(crate) async fn send(self, server: &S3Server, body: &[u8]) -> String {
        let mut request = self.signed(server);
        request.extend_from_slice(body);
        exchange(server.addr(), &request).await
    }
}

/// Writes `request` and reads until the server closes.
pub(crate) async fn exchange(addr: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // A server that refuses a body may reset the connection after its answer.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asserts on the status code of an answer.
#[track_caller]
pub(crate) fn assert_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "wanted {status}, got: {answer}");
}

fn signing_key(server: &S3Server, date: &str) -> [u8; 32] {
    let secret = format!("AWS4{}", server.secret_key());
    [date, server.region(), "s3", "aws4_request"]
        .iter()
        .fold(None, |key: Option<[u8; 32]>, part| {
            Some(hmac(key.as_ref().map_or(secret.as_bytes(), |key| key.as_slice()), part.as_bytes()))
        })
        .unwrap()
}

/// HMAC-SHA256 (RFC 2104) for keys of at most one hash block.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    assert!(key.len() <= 64);
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block.to_vec()
    };
    let inner = Sha256::checksum(&[pad(0x36), message.to_vec()].concat());
    Sha256::checksum(&[pad(0x5c), inner.to_vec()].concat())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn encode(key: &str) -> String {
    key.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            _ => write!(text, "%{byte:02X}").unwrap(),
        }
        text
    })
}

#[expect(clippy::disallowed_methods, reason = "a signature carries the wall-clock time")]
fn timestamp() -> String {
    let mut text = Vec::new();
    Timestamp::from(SystemTime::now()).format(TimestampFormat::DateTime, &mut text).unwrap();
    // 2026-01-02T03:04:05.678Z becomes 20260102T030405Z.
    let text = String::from_utf8(text).unwrap();
    format!("{}Z", text[..19].replace(['-', ':'], ""))
}

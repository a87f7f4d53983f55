//! The cheapest server a client can talk to: the upper bound for benches.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, RANGE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use s3s::dto::Range;
use tokio::net::TcpStream;

use crate::listener::{Loopback, serve_http};

/// How a [`NullServer`] starts.
#[derive(Debug, Clone, Default)]
pub struct NullOptions {
    /// Size in bytes of the body of every GET.
    pub block_bytes: usize,
    /// The port on 127.0.0.1; 0 picks a free one.
    pub port: u16,
}

/// An HTTP server on 127.0.0.1 that looks like S3 to a block client and does next to nothing.
///
/// Every path holds the same block of zeros: GET answers it (or the asked range of it) without a copy, HEAD its
/// length. PUT reads its body and throws it away. DELETE does nothing. Signatures, checksums and conditions are not
/// looked at; all other methods get 405. What a client reaches here is the limit of the client and the machine.
///
/// Dropping the server closes its port and ends its connections soon after; [`shutdown`](Self::shutdown) also waits.
#[derive(Debug)]
pub struct NullServer {
    listener: Loopback,
    endpoint: String,
}

impl NullServer {
    /// Starts a server on the caller's runtime.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub async fn start(options: &NullOptions) -> io::Result<Self> {
        let listener = Loopback::start(options.port, connection(options.block_bytes)).await?;
        Ok(Self { endpoint: listener.endpoint(), listener })
    }

    /// Starts a server on a thread of its own with its own runtime. It uses at most one core.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened or the thread cannot start.
    pub fn start_on_thread(options: &NullOptions) -> io::Result<Self> {
        let listener = Loopback::start_on_thread(options.port, connection(options.block_bytes))?;
        Ok(Self { endpoint: listener.endpoint(), listener })
    }

    /// The base URL, such as `http://127.0.0.1:41234`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The address behind [`endpoint`](Self::endpoint).
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Stops the server; returns when its port and all its connections are closed.
    ///
    /// # Cancel safety
    ///
    /// The server stops even if this future is dropped; only the waiting ends.
    pub async fn shutdown(self) {
        self.listener.shutdown().await;
    }
}

fn connection(block_bytes: usize) -> impl Fn(TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send {
    let block = Bytes::from(vec![0; block_bytes]);
    move |stream| {
        let block = block.clone();
        Box::pin(serve_http(stream, service_fn(move |request| respond(request, block.clone()))))
    }
}

async fn respond(request: Request<Incoming>, block: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = match *request.method() {
        Method::GET => read(request.headers().get(RANGE), block),
        Method::HEAD => with_length(block.len()),
        Method::PUT => swallow(request.into_body()).await,
        Method::DELETE => with_status(StatusCode::NO_CONTENT),
        _ => with_status(StatusCode::METHOD_NOT_ALLOWED),
    };
    // S3 clients refuse answers without these.
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_static("\"0\""));
    headers.insert(LAST_MODIFIED, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// The block, or the part of it that the Range header asks for.
fn read(range: Option<&HeaderValue>, block: Bytes) -> Response<Full<Bytes>> {
    let Some(range) = range else {
        return Response::new(Full::new(block));
    };
    let asked = range.to_str().ok().and_then(|range| Range::parse(range).ok());
    let asked = asked.and_then(|range| range.check(block.len() as u64).ok());
    let bounds = asked.and_then(|asked| Some((asked.start.try_into().ok()?, asked.end.try_into().ok()?)));
    let Some((start, end)): Option<(usize, usize)> = bounds else {
        return with_status(StatusCode::RANGE_NOT_SATISFIABLE);
    };
    let content_range = format!("bytes {start}-{}/{}", end - 1, block.len());
    let mut response = Response::new(Full::new(block.slice(start..end)));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    if let Ok(content_range) = HeaderValue::try_from(content_range) {
        response.headers_mut().insert(CONTENT_RANGE, content_range);
    }
    response
}

/// What a HEAD gets: the length of the body a GET would have.
fn with_length(bytes: usize) -> Response<Full<Bytes>> {
    let mut response = with_status(StatusCode::OK);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    response
}

async fn swallow(mut body: Incoming) -> Response<Full<Bytes>> {
    while !body.is_end_stream() {
        match body.frame().await {
            Some(Ok(_)) => {}
            // The writer is gone; so is the connection, and nobody reads this answer.
            Some(Err(_)) => return with_status(StatusCode::BAD_REQUEST),
            None => break,
        }
    }
    with_status(StatusCode::OK)
}

fn with_status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

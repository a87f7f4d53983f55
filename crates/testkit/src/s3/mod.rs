//! The S3 server and its in-memory store.

mod attributes;
mod backend;
mod body;
mod conditions;
mod list;
mod multipart;
mod object;
mod store;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpStream;

use crate::listener::{Loopback, serve_http};
use crate::requests::{RequestCounters, RequestCounts};

use backend::Backend;
pub use store::{EtagSource, Store};

const BUCKET: &str = "kvcache";
const ACCESS_KEY: &str = "kvtier-test-access";
const SECRET_KEY: &str = "kvtier-test-secret";
const REGION: &str = "us-east-1";

/// How an [`S3Server`] starts.
#[derive(Debug, Clone, Default)]
pub struct S3Options {
    /// Where ETags come from.
    pub etag: EtagSource,
    /// Buckets that exist from the start, besides [`S3Server::bucket`].
    pub extra_buckets: Vec<String>,
    /// The port on 127.0.0.1; 0 picks a free one.
    pub port: u16,
}

/// An S3 server on 127.0.0.1 that keeps its objects in memory.
///
/// Signatures (SigV4), routing, XML, aws-chunked bodies and trailers are those of the `s3s` crate, an
/// implementation independent of the clients under test. Only path-style addressing and plain HTTP are served.
/// The region in a client's signature is not compared with [`region`](Self::region).
///
/// Dropping the server closes its port and ends its connections soon after; [`shutdown`](Self::shutdown) also waits.
///
/// # What it checks
///
/// The request signature, the signed SHA-256 of the body, `Content-MD5`, the five `x-amz-checksum-*` values in
/// headers and trailers, the body length, and the conditions `If-Match`, `If-None-Match`, `If-Modified-Since` and
/// `If-Unmodified-Since`. A conditional PUT is atomic: the check and the insert share one lock.
#[derive(Debug)]
pub struct S3Server {
    listener: Loopback,
    endpoint: String,
    store: Arc<Store>,
    requests: Arc<RequestCounters>,
}

impl S3Server {
    /// Starts a server with the default options on the caller's runtime.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(&S3Options::default()).await
    }

    /// Starts a server on the caller's runtime.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub async fn start_with(options: &S3Options) -> io::Result<Self> {
        let (store, requests) = Self::state(options);
        let listener = Loopback::start(options.port, connection(&store, &requests)).await?;
        Ok(Self { endpoint: listener.endpoint(), listener, store, requests })
    }

    /// Starts a server on a thread of its own with its own runtime, so that it shares no worker thread with its
    /// clients. It uses at most one core.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened or the thread cannot start.
    pub fn start_on_thread(options: &S3Options) -> io::Result<Self> {
        let (store, requests) = Self::state(options);
        let listener = Loopback::start_on_thread(options.port, connection(&store, &requests))?;
        Ok(Self { endpoint: listener.endpoint(), listener, store, requests })
    }

    fn state(options: &S3Options) -> (Arc<Store>, Arc<RequestCounters>) {
        let buckets = std::iter::once(BUCKET).chain(options.extra_buckets.iter().map(String::as_str));
        (Arc::new(Store::new(options.etag, buckets)), Arc::default())
    }

    /// The base URL, such as `http://127.0.0.1:41234`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The address behind [`endpoint`](Self::endpoint), for tests that speak raw TCP.
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// The bucket that exists from the start.
    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// The only access key the server knows.
    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    /// The secret of [`access_key`](Self::access_key).
    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// The region to give to clients.
    pub fn region(&self) -> &'static str {
        REGION
    }

    /// The objects, to look at or change behind the back of HTTP.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Requests received so far.
    pub fn requests(&self) -> RequestCounts {
        self.requests.snapshot()
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

/// What serves one accepted connection.
fn connection(
    store: &Arc<Store>,
    requests: &Arc<RequestCounters>,
) -> impl Fn(TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + use<> {
    let mut builder = S3ServiceBuilder::new(Backend::new(Arc::clone(store)));
    builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
    let s3 = builder.build();
    let requests = Arc::clone(requests);
    move |stream| Box::pin(serve(stream, s3.clone(), Arc::clone(&requests)))
}

async fn serve(stream: TcpStream, s3: S3Service, requests: Arc<RequestCounters>) {
    let counted = service_fn(move |request: http::Request<Incoming>| {
        requests.count(request.method());
        Service::call(&s3, request)
    });
    serve_http(stream, counted).await;
}

//! The listener every server here shares: accept loop, connection tasks, orderly end.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Largest read buffer of a connection in bytes. The hyper default (about 400 KiB) costs more reads per MiB.
const READ_BUFFER_BYTES_MAX: usize = 1 << 20;

/// A listening port on 127.0.0.1. Dropping it closes the port and ends every connection.
#[derive(Debug)]
pub(crate) struct Loopback {
    addr: SocketAddr,
    /// Never sent on: the accept loop stops when this is dropped.
    stop: oneshot::Sender<Infallible>,
    /// Never sent on: resolves when the accept loop has dropped the listener and every connection.
    ended: oneshot::Receiver<Infallible>,
}

impl Loopback {
    /// Listens on `port` (0 picks a free one) and serves on the caller's runtime.
    pub(crate) async fn start<H, F>(port: u16, handler: H) -> io::Result<Self>
    where
        H: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let (loopback, serving) = Self::prepare(listener, handler)?;
        tokio::spawn(serving);
        Ok(loopback)
    }

    /// Listens on `port` (0 picks a free one) and serves on a thread of its own.
    pub(crate) fn start_on_thread<H, F>(port: u16, handler: H) -> io::Result<Self>
    where
        H: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let (loopback, serving) = {
            let _inside = runtime.enter();
            Self::prepare(TcpListener::from_std(listener)?, handler)?
        };
        thread::Builder::new().name("kvtier-testkit".into()).spawn(move || runtime.block_on(serving))?;
        Ok(loopback)
    }

    fn prepare<H, F>(
        listener: TcpListener,
        handler: H,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + 'static)>
    where
        H: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let addr = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let serving = async move {
            accept(listener, handler, stopped).await;
            drop(ending);
        };
        Ok((Self { addr, stop, ended }, serving))
    }

    /// The address clients connect to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL clients connect to.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Stops serving and waits until the port and every connection are closed.
    pub(crate) async fn shutdown(self) {
        drop(self.stop);
        // An error is the only thing this channel can deliver: it says the other half is gone.
        let _ = self.ended.await;
    }
}

async fn accept<H, F>(listener: TcpListener, handler: H, mut stopped: oneshot::Receiver<Infallible>)
where
    H: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                // Without TCP_NODELAY, Nagle against delayed ACK costs 40 ms on small answers.
                Ok((stream, _)) => if stream.set_nodelay(true).is_ok() {
                    connections.spawn(handler(stream));
                },
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Out of file descriptors, most likely: loud is better than a test that hangs.
                Err(error) => panic!("the test server cannot accept connections: {error}"),
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Serves HTTP/1.1 on one connection until the peer leaves.
pub(crate) async fn serve_http<S, B>(stream: TcpStream, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    let served = http1::Builder::new()
        .max_buf_size(READ_BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .without_shutdown()
        .await;
    // An error is a peer that left in the middle of a request: part of what the tests do.
    if let Ok(parts) = served {
        linger(parts.io.into_inner()).await;
    }
}

/// Closes a connection so that the peer gets the last answer.
///
/// A request may be refused before its body was read. A plain close then resets the connection, and the reset makes
/// the peer's kernel throw away the answer (RFC 9112 section 9.6).
async fn linger(mut stream: TcpStream) {
    if stream.shutdown().await.is_ok() {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
}

//! A peer that accepts requests and never answers them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time;

use crate::listener::Loopback;

/// What a [`StalledServer`] does after the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// Reads nothing more.
    Stop,
    /// Reads at most `bytes`, then waits for `pause`, again and again.
    Drip {
        /// Most bytes per read.
        bytes: usize,
        /// The wait after each read.
        pause: Duration,
    },
}

/// A server on 127.0.0.1 that reads the head of one request per connection and never answers.
///
/// The kernel's receive buffer takes a few MiB before a writer feels that nobody reads, so a short body is sent
/// whole even with [`Stall::Stop`]. Connections end when the peer closes or the server is dropped.
#[derive(Debug)]
pub struct StalledServer {
    listener: Loopback,
    endpoint: String,
    requests: watch::Receiver<u64>,
}

impl StalledServer {
    /// Starts a server on the caller's runtime.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn start(stall: Stall) -> io::Result<Self> {
        let (counter, requests) = watch::channel(0);
        let listener = Loopback::start(0, connection(stall, counter)).await?;
        Ok(Self { endpoint: listener.endpoint(), listener, requests })
    }

    /// The base URL, such as `http://127.0.0.1:41234`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The address behind [`endpoint`](Self::endpoint).
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Waits until the heads of `count` requests have arrived since the start.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub async fn wait_for_requests(&self, count: u64) {
        // The sender lives as long as the listener, which `self` holds.
        let _ = self.requests.clone().wait_for(|seen| *seen >= count).await;
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

fn connection(
    stall: Stall,
    counter: watch::Sender<u64>,
) -> impl Fn(TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send {
    let counter = Arc::new(counter);
    move |stream| Box::pin(hold(stream, stall, Arc::clone(&counter)))
}

async fn hold(mut stream: TcpStream, stall: Stall, counter: Arc<watch::Sender<u64>>) {
    if read_head(&mut stream).await.is_err() {
        return;
    }
    counter.send_modify(|seen| *seen += 1);
    match stall {
        Stall::Stop => std::future::pending().await,
        Stall::Drip { bytes, pause } => {
            let mut buffer = vec![0; bytes];
            while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                time::sleep(pause).await;
            }
        }
    }
}

/// Reads byte by byte up to the empty line, so that nothing of the body is read.
async fn read_head(stream: &mut TcpStream) -> io::Result<()> {
    let mut tail = [0; 4];
    while tail != *b"\r\n\r\n" {
        tail.rotate_left(1);
        tail[3] = stream.read_u8().await?;
    }
    Ok(())
}

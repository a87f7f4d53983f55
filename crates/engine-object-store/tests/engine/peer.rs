//! Hand-written HTTP peers, for what a well-behaved server never does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// One request of which the head has been read, and the connection to answer on.
pub(crate) struct Request {
    /// `GET /kv/name HTTP/1.1` and the headers.
    pub(crate) head: String,
    /// What came of the body together with the head.
    pub(crate) body: Vec<u8>,
    pub(crate) stream: TcpStream,
}

impl Request {
    async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut read = Vec::new();
        loop {
            let head_bytes = read.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
            if let Some(head_bytes) = head_bytes {
                let body = read.split_off(head_bytes);
                return Some(Self { head: String::from_utf8(read).unwrap(), body, stream });
            }
            if stream.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The value of a header, in lower-case spelling of its name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line =
            self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line[name.len() + 1..].trim())
    }

    /// Reads the whole body.
    pub(crate) async fn drain(&mut self) {
        let length = self.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.body.len() < length && self.stream.read_buf(&mut self.body).await.unwrap() > 0 {}
    }

    /// Sends bytes as they are. The client may be gone.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }
}

/// A listener that hands each request to a function. Each connection carries one request.
pub(crate) struct Peer {
    pub(crate) endpoint: String,
    requests: Arc<AtomicUsize>,
}

impl Peer {
    pub(crate) async fn start<F>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        tokio::spawn(async move {
            let answer = Arc::new(answer);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, counter) = (Arc::clone(&answer), Arc::clone(&counter));
                tokio::spawn(async move {
                    if let Some(request) = Request::read(stream).await {
                        counter.fetch_add(1, Ordering::Relaxed);
                        answer(request).await;
                    }
                });
            }
        });
        Self { endpoint, requests }
    }

    /// Answers every request with the same bytes, after its body, and closes the connection.
    pub(crate) async fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = Arc::new(response.into());
        Self::start(move |mut request| {
            let response = Arc::clone(&response);
            async move {
                request.drain().await;
                request.send(&response).await;
            }
        })
        .await
    }

    /// Takes every request and never says a word.
    pub(crate) async fn silent() -> Self {
        Self::start(|request| async move {
            let _open = request;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// How many requests have come.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// A response with a status line such as `200 OK`, that names `length` and brings `body`.
pub(crate) fn response(status: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"e\"\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// S3's refusal with an error code.
pub(crate) fn refusal(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>");
    response(status, body.len(), body.as_bytes())
}

/// An address where nobody listens. The socket keeps the port from everybody else.
pub(crate) fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

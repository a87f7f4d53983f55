//! Whole HTTP/1.1 messages, read from and written to sockets by hand: no library lets a server lie about lengths.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Longest head of a message, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// A message: the head as it came, what of it is needed, and the body as it came, chunk framing included.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) head: Vec<u8>,
    /// The method and the path of a request; the status, as text, of an answer.
    pub(super) start: (String, String),
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let of = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        of.map(|(_, value)| value.as_str())
    }

    pub(super) fn status(&self) -> u16 {
        self.start.0.parse().unwrap_or(0)
    }

    /// Whether the peer closes after this.
    pub(super) fn is_last(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reads from one peer, and keeps what came too early.
pub(super) struct Reader<R> {
    stream: R,
    ahead: Vec<u8>,
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    async fn more(&mut self) -> io::Result<()> {
        if self.stream.read_buf(&mut self.ahead).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// The head of the next request; `None` if the peer has left.
    pub(super) async fn request(&mut self) -> io::Result<Option<Message>> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut request = httparse::Request::new(&mut headers);
            let parsed = request.parse(&self.ahead).map_err(|_| bad("no HTTP request"))?;
            if let httparse::Status::Complete(bytes) = parsed {
                let start = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
                let start = (start.0.to_owned(), start.1.to_owned());
                let headers = owned(request.headers);
                let head = self.ahead.drain(..bytes).collect();
                return Ok(Some(Message { head, start, headers, body: Vec::new() }));
            }
            if self.ahead.len() > HEAD_BYTES_MAX {
                return Err(bad("a head too long"));
            }
            let is_between = self.ahead.is_empty();
            match self.more().await {
                Err(error) if is_between && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                other => other?,
            }
        }
    }

    /// The next answer that is not interim, with its body.
    pub(super) async fn answer(&mut self, to_head: bool) -> io::Result<Message> {
        loop {
            let mut message = self.answer_head().await?;
            if message.status() == 100 {
                continue;
            }
            if !to_head && !matches!(message.status(), 204 | 304) {
                self.body(&mut message).await?;
            }
            return Ok(message);
        }
    }

    async fn answer_head(&mut self) -> io::Result<Message> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut answer = httparse::Response::new(&mut headers);
            let parsed = answer.parse(&self.ahead).map_err(|_| bad("no HTTP answer"))?;
            if let httparse::Status::Complete(bytes) = parsed {
                let start = (answer.code.unwrap_or_default().to_string(), String::new());
                let headers = owned(answer.headers);
                let head = self.ahead.drain(..bytes).collect();
                return Ok(Message { head, start, headers, body: Vec::new() });
            }
            self.more().await?;
        }
    }

    /// Reads the body that belongs to a head, framing included.
    pub(super) async fn body(&mut self, message: &mut Message) -> io::Result<()> {
        let is_chunked = message.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
        if !is_chunked {
            let length = message.header("content-length").map_or(Ok(0), str::parse);
            let length: usize = length.map_err(|_| bad("no length"))?;
            return self.take(length, &mut message.body).await;
        }
        loop {
            let parsed = httparse::parse_chunk_size(&self.ahead).map_err(|_| bad("no chunk"))?;
            let httparse::Status::Complete((head, size)) = parsed else {
                self.more().await?;
                continue;
            };
            let size = usize::try_from(size).map_err(|_| bad("a chunk too long"))?;
            if size > 0 {
                self.take(head + size + 2, &mut message.body).await?;
                continue;
            }
            self.take(head, &mut message.body).await?;
            return self.trailers(&mut message.body).await;
        }
    }

    /// Up to the empty line.
    async fn trailers(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = loop {
                match self.ahead.windows(2).position(|two| two == b"\r\n") {
                    Some(at) => break at + 2,
                    None => self.more().await?,
                }
            };
            self.take(line, body).await?;
            if line == 2 {
                return Ok(());
            }
        }
    }

    async fn take(&mut self, bytes: usize, into: &mut Vec<u8>) -> io::Result<()> {
        while self.ahead.len() < bytes {
            self.more().await?;
        }
        into.extend(self.ahead.drain(..bytes));
        Ok(())
    }
}

fn owned(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    headers.iter().map(|header| (header.name.to_owned(), text(header.value))).collect()
}

/// A head with this status and these headers in place of their namesakes, and with all others of `from`.
pub(super) fn head(status: u16, from: &Message, instead: &[(&str, Option<String>)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} x\r\n");
    let is_replaced = |name: &str| instead.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    for (name, value) in from.headers.iter().filter(|(name, _)| !is_replaced(name)) {
        head.extend([name, ": ", value, "\r\n"]);
    }
    for (name, value) in instead {
        head.extend(value.iter().map(|value| format!("{name}: {value}\r\n")));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Writes a whole piece at once.
pub(super) async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

//! One connection of a client: its requests go to the store, the answers come back with their faults.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

use super::State;
use super::plan::Fault;
use super::wire::{Message, Reader, head, write};

/// Between two pieces of a body with a bandwidth.
const TICK: Duration = Duration::from_millis(10);

/// Whether the connection goes on.
#[derive(PartialEq)]
enum Next {
    Request,
    Close,
}

struct Connection<'a> {
    client: Reader<OwnedReadHalf>,
    to_client: OwnedWriteHalf,
    store: Option<(Reader<OwnedReadHalf>, OwnedWriteHalf)>,
    state: &'a State,
}

/// Serves until either side leaves. An error is a peer that left: part of what tests do.
pub(super) async fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    let (client, to_client) = stream.into_split();
    let mut connection = Connection { client: Reader::new(client), to_client, store: None, state };
    while let Some(request) = connection.client.request().await? {
        if connection.handle(request).await? == Next::Close {
            break;
        }
    }
    Ok(())
}

impl Connection<'_> {
    async fn handle(&mut self, mut request: Message) -> io::Result<Next> {
        let fault = self.state.decide(&request.start.0, &request.start.1);
        if fault == Fault::StallUpload {
            return pending().await;
        }
        if request.header("expect").is_some() {
            write(&mut self.to_client, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        self.client.body(&mut request).await?;
        let is_last = request.is_last();
        let next = match fault {
            Fault::Hold => pending().await,
            Fault::Reset => Next::Close,
            Fault::Status { status, code, body_bytes } => {
                self.refuse(status, code, body_bytes, &request).await?
            }
            Fault::Redirect(to) => {
                let location = [("location", Some(to)), ("content-length", Some("0".to_owned()))];
                write(&mut self.to_client, &head(307, &Message::default(), &location)).await?;
                Next::Request
            }
            Fault::Swallow => {
                let headers = [("etag", Some("\"0\"".to_owned())), ("content-length", Some("0".to_owned()))];
                write(&mut self.to_client, &head(200, &Message::default(), &headers)).await?;
                Next::Request
            }
            fault => {
                let answer = self.ask(&request).await?;
                self.answer(&request, answer, fault).await?
            }
        };
        Ok(if is_last { Next::Close } else { next })
    }

    /// Sends the request to the store as it came.
    async fn ask(&mut self, request: &Message) -> io::Result<Message> {
        if self.store.is_none() {
            let stream = TcpStream::connect(&self.state.upstream).await?;
            stream.set_nodelay(true)?;
            let (read, write) = stream.into_split();
            self.store = Some((Reader::new(read), write));
        }
        let Some((from_store, to_store)) = &mut self.store else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        write(to_store, &request.head).await?;
        write(to_store, &request.body).await?;
        let answer = from_store.answer(request.start.0 == "HEAD").await?;
        if answer.is_last() {
            self.store = None;
        }
        Ok(answer)
    }

    async fn refuse(
        &mut self,
        status: u16,
        code: &str,
        body_bytes: usize,
        request: &Message,
    ) -> io::Result<Next> {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>";
        let mut body =
            if code.is_empty() { Vec::new() } else { format!("{xml}{code}</Code></Error>").into_bytes() };
        let filler = if code.is_empty() { 0 } else { b' ' };
        body.resize(body.len().max(body_bytes), filler);
        let length = [("content-length", Some(body.len().to_string()))];
        write(&mut self.to_client, &head(status, &Message::default(), &length)).await?;
        if request.start.0 != "HEAD" {
            write(&mut self.to_client, &body).await?;
        }
        Ok(Next::Request)
    }

    /// Passes the answer on, with its fault.
    async fn answer(&mut self, request: &Message, mut answer: Message, fault: Fault) -> io::Result<Next> {
        if let Fault::Delay(delay) = fault {
            sleep(delay).await;
        }
        let has_block = request.start.0 == "GET" && matches!(answer.status(), 200 | 206);
        if !has_block {
            write(&mut self.to_client, &answer.head).await?;
            write(&mut self.to_client, &answer.body).await?;
            return Ok(if answer.is_last() { Next::Close } else { Next::Request });
        }
        let mut status = answer.status();
        match fault {
            Fault::Truncate(to) => answer.body.truncate(to),
            Fault::Shift(by) => drop(answer.body.drain(..by.min(answer.body.len()))),
            Fault::Extend(by) => {
                let longest = asked(request).unwrap_or(usize::MAX);
                answer.body.extend(std::iter::repeat_n(0x5A, by));
                answer.body.truncate(longest);
            }
            Fault::Whole(by) => {
                status = 200;
                answer.body.extend(std::iter::repeat_n(0x5A, by));
            }
            Fault::Flip(at) => {
                if let Some(byte) = answer.body.get_mut(at) {
                    *byte ^= 0x10;
                }
            }
            _ => {}
        }
        let length = answer.body.len();
        let range = format!("bytes 0-{}/{length}", length.saturating_sub(1));
        let range = ("content-range", (status == 206).then_some(range));
        let framing = match fault {
            Fault::CloseDelimited(_) => [("content-length", None), ("connection", Some("close".to_owned()))],
            Fault::ChunkedCut(_) => {
                [("content-length", None), ("transfer-encoding", Some("chunked".to_owned()))]
            }
            _ => [("content-length", Some(length.to_string())), ("transfer-encoding", None)],
        };
        let [first, second] = framing;
        write(&mut self.to_client, &head(status, &answer, &[range, first, second])).await?;
        self.send_body(&answer.body, fault).await
    }

    async fn send_body(&mut self, body: &[u8], fault: Fault) -> io::Result<Next> {
        let to_client = &mut self.to_client;
        let up_to = |bytes: usize| &body[..bytes.min(body.len())];
        match fault {
            Fault::Cut(bytes) | Fault::CloseDelimited(bytes) => {
                write(to_client, up_to(bytes)).await?;
                return Ok(Next::Close);
            }
            Fault::ChunkedCut(bytes) => {
                let part = up_to(bytes);
                write(to_client, format!("{:x}\r\n", part.len()).as_bytes()).await?;
                write(to_client, part).await?;
                return Ok(Next::Close);
            }
            Fault::Stall(bytes) => {
                write(to_client, up_to(bytes)).await?;
                return pending().await;
            }
            Fault::DelayBody(delay) => {
                sleep(delay).await;
                write(to_client, body).await?;
            }
            Fault::Drip { bytes, pause } => {
                for piece in body.chunks(bytes.max(1)) {
                    write(to_client, piece).await?;
                    sleep(pause).await;
                }
            }
            Fault::Bandwidth(rate) => {
                let tick = usize::try_from(rate / 100).unwrap_or(usize::MAX).max(1);
                for piece in body.chunks(tick) {
                    write(to_client, piece).await?;
                    sleep(TICK).await;
                }
            }
            _ => write(to_client, body).await?,
        }
        Ok(Next::Request)
    }
}

/// How many bytes the request asks for.
fn asked(request: &Message) -> Option<usize> {
    let (first, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

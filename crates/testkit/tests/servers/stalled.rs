//! The stalled server never answers.

use std::time::Duration;

use kvtier_testkit::{Stall, StalledServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time;

/// Far above any real wait; only a hang reaches it.
const HANG: Duration = Duration::from_secs(30);

/// Both kinds of stall take the request's head and give no byte back until the server stops.
#[tokio::test]
async fn no_answer() {
    for stall in [Stall::Stop, Stall::Drip { bytes: 1, pause: Duration::from_millis(1) }] {
        let server = StalledServer::start(stall).await.unwrap();
        let mut client = TcpStream::connect(server.addr()).await.unwrap();
        client.write_all(b"PUT /b/k HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody").await.unwrap();
        time::timeout(HANG, server.wait_for_requests(1)).await.unwrap();
        assert_eq!(client.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        time::timeout(HANG, server.shutdown()).await.unwrap();
        let read = time::timeout(HANG, client.read(&mut [0])).await.unwrap();
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    }
}

/// A dripping server takes all of a body in the end, one that stopped does not: the writer of a long one gets stuck.
#[tokio::test]
async fn drip_reads_and_stop_does_not() {
    // Far above the 6 + 4 MiB that Linux buffers by default (net.ipv4.tcp_rmem and tcp_wmem).
    let body = vec![0; 96 << 20];
    let head = b"PUT /b/k HTTP/1.1\r\n\r\n";
    let drip = StalledServer::start(Stall::Drip { bytes: 8 << 20, pause: Duration::ZERO }).await.unwrap();
    let mut client = TcpStream::connect(drip.addr()).await.unwrap();
    client.write_all(head).await.unwrap();
    time::timeout(HANG, client.write_all(&body)).await.unwrap().unwrap();

    let stop = StalledServer::start(Stall::Stop).await.unwrap();
    let mut client = TcpStream::connect(stop.addr()).await.unwrap();
    client.write_all(head).await.unwrap();
    let stuck = time::timeout(Duration::from_millis(500), client.write_all(&body)).await;
    assert!(stuck.is_err(), "{stuck:?}");
}

//! Start, stop and what is counted in between.

use std::net::SocketAddr;
use std::time::Duration;

use kvtier_testkit::{RequestCounts, S3Options, S3Server};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time;

use crate::client::client;

/// Far above any real wait; only a hang reaches it.
const HANG: Duration = Duration::from_secs(30);

async fn is_open(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).await.is_ok()
}

/// After shutdown nobody listens on the port and connections that were open are closed.
#[tokio::test]
async fn shutdown_closes_everything() {
    let server = S3Server::start().await.unwrap();
    let addr = server.addr();
    let mut idle = TcpStream::connect(addr).await.unwrap();
    client(&server).put(&Path::from("key"), "body".into()).await.unwrap();
    time::timeout(HANG, server.shutdown()).await.unwrap();
    assert!(!is_open(addr).await);
    let read = time::timeout(HANG, idle.read(&mut [0])).await.unwrap();
    assert!(!matches!(read, Ok(1..)), "{read:?}");
}

/// Dropping the server closes the port as well, on the caller's runtime and on its own thread.
#[tokio::test]
async fn drop_closes_the_port() {
    let here = S3Server::start().await.unwrap();
    let on_thread = S3Server::start_on_thread(&S3Options::default()).unwrap();
    for server in [here, on_thread] {
        let addr = server.addr();
        assert!(is_open(addr).await);
        drop(server);
        let closed = async {
            while is_open(addr).await {
                tokio::task::yield_now().await;
            }
        };
        time::timeout(HANG, closed).await.unwrap();
    }
}

/// A server on its own thread starts outside any runtime, serves, and stops.
#[test]
fn own_thread() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let path = Path::from("key");
        client(&server).put(&path, "body".into()).await.unwrap();
        assert_eq!(server.store().get(server.bucket(), "key").unwrap(), "body");
        let addr = server.addr();
        time::timeout(HANG, server.shutdown()).await.unwrap();
        assert!(!is_open(addr).await);
    });
}

/// Two servers have different ports and different objects.
#[tokio::test]
async fn servers_are_separate() {
    let (one, two) = (S3Server::start().await.unwrap(), S3Server::start().await.unwrap());
    client(&one).put(&Path::from("key"), "body".into()).await.unwrap();
    assert_ne!(one.endpoint(), two.endpoint());
    assert_eq!(two.store().keys(two.bucket()), [""; 0]);
    assert_eq!(two.requests().total(), 0);
}

/// Each request counts once under its method, refused ones too; the store's own methods do not count.
#[tokio::test]
async fn counters() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let path = Path::from("key");
    server.store().insert(server.bucket(), "planted", "body");
    assert_eq!(server.requests(), RequestCounts::default());
    client.put(&path, "body".into()).await.unwrap();
    client.get(&path).await.unwrap();
    client.get(&Path::from("missing")).await.unwrap_err();
    client.head(&path).await.unwrap();
    client.delete(&path).await.unwrap();
    client.list_with_delimiter(None).await.unwrap();
    let wanted = RequestCounts { get: 3, put: 1, head: 1, post: 1, delete: 0, other: 0 };
    assert_eq!(server.requests(), wanted);
    assert_eq!(server.requests().total(), 6);
}

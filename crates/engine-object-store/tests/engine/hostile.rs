//! Peers that break the rules: a load is never taken for good when it is not, and a slot is free when its transfer is
//! complete, whatever the peer still does.

use std::sync::Arc;
use std::time::Duration;

use kvtier_core::{Access, Direction, ErrorKind};
use kvtier_engine_object_store::ConfigKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::bench::Bench;
use crate::peer::{Peer, nobody, refusal, response};

const BLOCK: usize = 64 << 10;

async fn load_from(bytes: Vec<u8>) -> (Result<(), kvtier_core::Error>, usize) {
    let peer = Peer::answering(bytes).await;
    let bench = Bench::against(&peer.endpoint, &[], BLOCK);
    (bench.load("a").await, peer.requests())
}

/// An object that is shorter or longer than the block is corrupt, and the message has both sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_length_is_corrupt() {
    for length in [0, 1, BLOCK - 1, BLOCK + 1, 2 * BLOCK] {
        let (result, requests) = load_from(response("200 OK", length, &vec![7; length])).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(
            error.message().contains(&format!("expected {BLOCK} bytes, the object holds {length}")),
            "{error}"
        );
        assert_eq!(requests, 1);
    }
}

/// A body that ends before the length that was promised is a failed connection, not a short object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_body_is_unavailable() {
    for sent in [0, 1, BLOCK / 2, BLOCK - 1] {
        let (result, requests) = load_from(response("200 OK", BLOCK, &vec![7; sent])).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.message().starts_with("GET a: the connection broke"), "{error}");
        assert_eq!(requests, 1, "the client must not fetch the rest by itself");
    }
}

/// Compressed content is not unpacked on the way: the slot gets the bytes that were stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_not_decoded() {
    let body = vec![0x1f; BLOCK];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BLOCK}\r\nContent-Encoding: gzip\r\n\r\n");
    let bytes = [head.as_bytes(), &body].concat();
    let peer = Peer::start(move |mut request| {
        let bytes = bytes.clone();
        async move {
            assert_eq!(request.header("accept-encoding"), None);
            request.send(&bytes).await;
        }
    })
    .await;
    let bench = Bench::against(&peer.endpoint, &[], BLOCK);
    bench.load("a").await.unwrap();
    assert_eq!(bench.bytes(0), body);
}

/// Refusals become kinds through the real client, in loads and in stores, after one request each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_told_apart_and_not_retried() {
    for (status, code, kind) in [
        ("403 Forbidden", "AccessDenied", ErrorKind::Denied),
        ("401 Unauthorized", "", ErrorKind::Denied),
        ("404 Not Found", "NoSuchKey", ErrorKind::NotFound),
        ("404 Not Found", "NoSuchBucket", ErrorKind::Config),
        ("408 Request Timeout", "", ErrorKind::Timeout),
        ("429 Too Many Requests", "", ErrorKind::Throttled),
        ("500 Internal Server Error", "InternalError", ErrorKind::Unavailable),
        ("502 Bad Gateway", "", ErrorKind::Unavailable),
        ("503 Service Unavailable", "SlowDown", ErrorKind::Throttled),
        ("503 Service Unavailable", "ServiceUnavailable", ErrorKind::Unavailable),
    ] {
        for direction in [Direction::Load, Direction::Store] {
            let peer = Peer::answering(refusal(status, code)).await;
            let bench = Bench::against(&peer.endpoint, &[], BLOCK);
            let error = bench.run(direction, "a", None).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{direction} {status} {code}: {error}");
            assert!(error.message().contains(&status[..3]) && error.message().contains(code), "{error}");
            assert_eq!(peer.requests(), 1, "{direction} {status}");
        }
    }
}

/// A refusal without end is not read to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_refusal_is_cut() {
    let peer = Peer::start(|mut request| async move {
        request.send(b"HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let chunk = [&b"1000\r\n"[..], &[b'x'; 0x1000], b"\r\n"].concat();
        while request.stream.write_all(&chunk).await.is_ok() {}
    })
    .await;
    let error = Bench::against(&peer.endpoint, &[], BLOCK).load("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("limit"), "{error}");
}

/// A connection that closes without an answer, and one that was never there, are unavailable after one attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connections_are_unavailable_and_not_retried() {
    for direction in [Direction::Load, Direction::Store] {
        let peer = Peer::start(|mut request| async move { request.drain().await }).await;
        let bench = Bench::against(&peer.endpoint, &[], BLOCK);
        let error = bench.run(direction, "a", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(peer.requests(), 1);
    }
    let (_socket, address) = nobody();
    let bench = Bench::against(&address, &[], BLOCK);
    let error = bench.load("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("endpoint_override"), "{error}");
}

/// A redirect is an error about region and endpoint; it is not followed, so no request reaches another host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_are_not_followed() {
    let elsewhere = Peer::answering(response("200 OK", BLOCK, &vec![7; BLOCK])).await;
    let location = format!("Location: http://{}/kv/a\r\n", elsewhere.endpoint);
    for (status, location) in [("301 Moved Permanently", ""), ("307 Temporary Redirect", location.as_str())] {
        let bytes = format!("HTTP/1.1 {status}\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n");
        let peer = Peer::answering(bytes).await;
        for direction in [Direction::Load, Direction::Store] {
            let error =
                Bench::against(&peer.endpoint, &[], BLOCK).run(direction, "a", None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains("region"), "{error}");
        }
    }
    assert_eq!(elsewhere.requests(), 0);
}

/// A server that never answers costs the transfer's deadline, or the configured timeout if there is none, and no more
/// requests than one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_ends_at_the_deadline() {
    let peer = Peer::silent().await;
    for direction in [Direction::Load, Direction::Store] {
        let before = peer.requests();
        let patient = Bench::against(&peer.endpoint, &[], BLOCK);
        let error = patient.run(direction, "a", Some(Duration::from_millis(100))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        let impatient = Bench::against(&peer.endpoint, &[(ConfigKey::RequestTimeout, "100ms")], BLOCK);
        let error = impatient.run(direction, "a", Some(Duration::from_hours(1))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(peer.requests(), before + 2);
        let error = patient.run(direction, "a", Some(Duration::ZERO)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(peer.requests(), before + 2, "what is late already is not begun");
    }
}

/// A body that stalls: at the deadline the transfer is complete and its slot free, and what the peer sends
/// afterwards reaches nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_load_leaves_its_slot_alone() {
    let (go, wait) = oneshot::channel::<()>();
    let (done, sent) = oneshot::channel::<()>();
    let signals = Arc::new(Mutex::new(Some((wait, done))));
    let peer = Peer::start(move |mut request| {
        let signals = Arc::clone(&signals);
        async move {
            let (wait, done) = signals.lock().await.take().unwrap();
            request.send(&response("200 OK", BLOCK, &vec![7; BLOCK / 2])).await;
            wait.await.unwrap();
            request.send(&vec![8; BLOCK / 2]).await;
            // The client has hung up: nothing more to read, or a reset.
            let _ = request.stream.read_to_end(&mut Vec::new()).await;
            done.send(()).unwrap();
        }
    })
    .await;
    let bench = Bench::against(&peer.endpoint, &[], BLOCK);
    let error = bench.run(Direction::Load, "a", Some(Duration::from_millis(200))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    bench.fill(0, 1);
    go.send(()).unwrap();
    sent.await.unwrap();
    assert_eq!(bench.bytes(0), vec![1; BLOCK]);
}

/// A peer that hardly takes the body of a store: at the deadline the transfer is complete and its slot
/// free. What is in the slot afterwards never reaches the peer, however long it drains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slowly_drained_store_leaves_its_slot_alone() {
    // More than loopback's buffers hold, so that the client is still sending at the deadline.
    let block = 32 << 20;
    let (go, wait) = oneshot::channel::<()>();
    let (tell, mut told) = mpsc::channel(1);
    let wait = Arc::new(Mutex::new(Some(wait)));
    let peer = Peer::start(move |mut request| {
        let (wait, tell) = (Arc::clone(&wait), tell.clone());
        async move {
            let mut some = [0; 1024];
            request.stream.read_exact(&mut some).await.unwrap();
            request.body.extend(some);
            wait.lock().await.take().unwrap().await.unwrap();
            let _ = request.stream.read_to_end(&mut request.body).await;
            let _ = request.stream.shutdown().await;
            tell.send(request.body).await.unwrap();
        }
    })
    .await;
    let bench = Bench::against(&peer.endpoint, &[], block);
    bench.fill(0, 1);
    let error = bench.run(Direction::Store, "a", Some(Duration::from_millis(500))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    drop(bench.memory.lease(0, Access::Write).expect("the slot is free"));
    bench.fill(0, 2);
    go.send(()).unwrap();
    let drained = told.recv().await.unwrap();
    assert!(drained.len() > 1024 && drained.iter().all(|byte| *byte == 1), "{} bytes", drained.len());
}

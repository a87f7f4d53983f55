use std::time::{Duration, Instant};

use kvtier_testkit::{Fault, FaultProxy, FaultRates, FaultRule, NullOptions, NullServer, S3Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for whatever comes on loopback.
const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough to believe that nothing comes any more.
const SILENCE: Duration = Duration::from_millis(300);
const BLOCK_BYTES: usize = 1000;

fn servers() -> (NullServer, FaultProxy) {
    let null =
        NullServer::start_on_thread(&NullOptions { block_bytes: BLOCK_BYTES, ..NullOptions::default() })
            .unwrap();
    let proxy = FaultProxy::start_on_thread(null.endpoint()).unwrap();
    (null, proxy)
}

/// What came back for one request, as text and bytes of body, and whether the connection ended.
async fn ask(proxy: &FaultProxy, method: &str, path: &str, more: &str) -> (String, usize, bool) {
    let mut stream = TcpStream::connect(proxy.endpoint().trim_start_matches("http://")).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let wait = if answer.is_empty() { PATIENCE.min(SILENCE * 5) } else { SILENCE };
        match timeout(wait, stream.read(&mut piece)).await {
            Ok(Ok(0) | Err(_)) => return split(&answer, true),
            Ok(Ok(bytes)) => answer.extend(&piece[..bytes]),
            Err(_) => return split(&answer, false),
        }
    }
}

fn split(answer: &[u8], ended: bool) -> (String, usize, bool) {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    (String::from_utf8_lossy(&answer[..head]).to_lowercase(), answer.len() - head, ended)
}

/// Each fault is what it says, on the wire: status, promised length, bytes, and whether the connection ends.
#[tokio::test]
async fn faults_are_seen_on_the_wire() {
    let (_null, proxy) = servers();
    let length = |bytes: usize| format!("content-length: {bytes}\r\n");
    for (fault, words, body, ended) in [
        (Fault::None, length(1000), 1000, true),
        (Fault::Truncate(10), length(10), 10, true),
        (Fault::Truncate(0), length(0), 0, true),
        (Fault::Extend(7), length(1007), 1007, true),
        (Fault::Extend(5000), length(1100), 1100, true),
        (Fault::Whole(5000), length(6000), 6000, true),
        (Fault::Shift(10), length(990), 990, true),
        (Fault::Cut(10), length(1000), 10, true),
        (Fault::Stall(10), length(1000), 10, false),
        (Fault::CloseDelimited(10), "connection: close".to_owned(), 10, true),
        (Fault::ChunkedCut(16), "transfer-encoding: chunked".to_owned(), 4 + 16, true),
        (Fault::Reset, String::new(), 0, true),
        (Fault::Hold, String::new(), 0, false),
        (Fault::refuse(503, "SlowDown"), "http/1.1 503".to_owned(), 74, true),
        (Fault::Status { status: 500, code: "", body_bytes: 300 }, "http/1.1 500".to_owned(), 300, true),
        (Fault::Redirect("http://a/b".to_owned()), "location: http://a/b".to_owned(), 0, true),
        (Fault::Drip { bytes: 500, pause: Duration::from_millis(1) }, length(1000), 1000, true),
        (Fault::Bandwidth(1_000_000), length(1000), 1000, true),
    ] {
        proxy.clear();
        proxy.add(FaultRule::always("bucket/my key", fault.clone()));
        let seen = ask(&proxy, "GET", "/bucket/my%20key?x=1", "range: bytes=0-1099\r\n").await;
        assert!(seen.0.contains(&words), "{fault:?}: {seen:?}");
        assert_eq!((seen.1, seen.2), (body, ended), "{fault:?}: {seen:?}");
        assert_eq!(proxy.injected(), usize::from(fault != Fault::None));
        let other = ask(&proxy, "GET", "/bucket/another", "").await;
        assert_eq!((other.1, other.2), (BLOCK_BYTES, true), "{fault:?} reached another key");
    }
}

/// Delays delay what they say.
#[tokio::test]
async fn delays_take_their_time() {
    let (_null, proxy) = servers();
    let delay = Duration::from_millis(200);
    for fault in [Fault::Delay(delay), Fault::DelayBody(delay)] {
        proxy.clear();
        proxy.add(FaultRule::always("key", fault.clone()));
        #[expect(clippy::disallowed_methods, reason = "the delay is what is tested")]
        let start = Instant::now();
        assert_eq!(ask(&proxy, "GET", "/bucket/key", "").await.1, BLOCK_BYTES);
        assert!(start.elapsed() >= delay, "{fault:?}");
    }
}

/// A sequence goes by attempts and is then over; methods are told apart; uploads with a promise to continue pass,
/// or are never read.
#[tokio::test]
async fn rules_choose_their_requests() {
    let (_null, proxy) = servers();
    proxy.add(FaultRule::sequence("seq", [Fault::refuse(503, "SlowDown"), Fault::None, Fault::Reset]));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses
            .push(ask(&proxy, "GET", "/bucket/seq", "").await.0.chars().skip(9).take(3).collect::<String>());
    }
    assert_eq!(statuses, ["503", "200", "", "200"]);

    proxy.add(FaultRule::always("key", Fault::refuse(403, "AccessDenied")).methods(["HEAD"]));
    assert!(ask(&proxy, "HEAD", "/bucket/key", "").await.0.contains("403"));
    assert!(ask(&proxy, "GET", "/bucket/key", "").await.0.contains("200"));

    let upload = "content-length: 0\r\nexpect: 100-continue\r\n";
    assert!(ask(&proxy, "PUT", "/bucket/up", upload).await.0.contains("100 continue"));
    proxy.add(FaultRule::always("unread", Fault::StallUpload));
    assert!(!ask(&proxy, "PUT", "/bucket/unread", "content-length: 0\r\n").await.2);
}

/// Chance is the same for the same seed and another for another, and hits about as often as it should.
#[tokio::test]
async fn rates_follow_from_the_seed() {
    let (_null, proxy) = servers();
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        proxy.clear();
        proxy.set_rates(FaultRates { seed, rates: vec![(0.5, Fault::refuse(503, "SlowDown"))] });
        let mut run = Vec::new();
        for key in 0..40 {
            run.push(ask(&proxy, "GET", &format!("/bucket/{key}"), "").await.0.contains("503"));
        }
        assert_eq!(proxy.injected(), run.iter().filter(|hit| **hit).count());
        assert!((10..=30).contains(&proxy.injected()), "{} of 40", proxy.injected());
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

/// A swallowed upload is acknowledged and never reaches the store, which would refuse it.
#[tokio::test]
async fn a_swallowed_upload_is_gone() {
    let server = S3Server::start().await.unwrap();
    let proxy = FaultProxy::start_on_thread(server.endpoint()).unwrap();
    let put = "content-length: 0\r\n";
    assert!(ask(&proxy, "PUT", "/kvcache/seen", put).await.0.contains("403"));
    proxy.add(FaultRule::always("gone", Fault::Swallow));
    assert!(ask(&proxy, "PUT", "/kvcache/gone", put).await.0.contains("200"));
    assert_eq!(server.requests().total(), 1);
}

//! Secrets stay inside: a process of its own, because it listens to everything that is logged.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as tests do")]

#[path = "engine/bench.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
mod bench;
#[path = "engine/peer.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
mod peer;

use std::io;
use std::sync::{Arc, Mutex};

use kvtier_core::{Direction, ErrorKind, TransferEngine};
use kvtier_engine_object_store::{ConfigKey, ObjectStoreEngine, StoreConfig};
use tokio::runtime::Handle;
use tracing_subscriber::filter::LevelFilter;

use bench::Bench;
use peer::{Peer, nobody, response};

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A peer that refuses everything and shows the whole request in its answer, as S3 shows the request that it signed.
async fn echo() -> Peer {
    Peer::start(|mut request| async move {
        let body = format!("<Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>{}", request.head);
        assert!(body.contains("planted-token"), "the token is in the request, or this test shows nothing");
        request.drain().await;
        request.send(&response("403 Forbidden", body.len(), body.as_bytes())).await;
    })
    .await
}

/// No secret is in the `Debug` of configuration or engine, in any error of a probe, a transfer or a lookup, or in
/// the log at its finest, whether the server refuses and echoes the request, is not there, or does not speak TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_shown() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(move || writer.clone()).init();

    let echo = echo().await;
    let (_socket, nobody) = nobody();
    let mut shown = Vec::new();
    for endpoint in [echo.endpoint.clone(), nobody, "kvtier.invalid".to_owned()] {
        let mut config = StoreConfig::default();
        for (key, value) in [
            (ConfigKey::Bucket, "kv"),
            (ConfigKey::EndpointOverride, endpoint.as_str()),
            (ConfigKey::AccessKey, "planted-access"),
            (ConfigKey::SecretKey, "planted-secret"),
            (ConfigKey::SessionToken, "planted-token"),
        ] {
            config.set(key, value).unwrap();
        }
        let bench = Bench::new(ObjectStoreEngine::s3(&config, Handle::current()).unwrap(), 64, 4);
        shown.push(format!("{config:?} {:?}\n", bench.engine));
        let mut errors = vec![bench.engine.probe().await.unwrap_err()];
        errors.push(bench.run(Direction::Load, "a", None).await.unwrap_err());
        errors.push(bench.run(Direction::Store, "a", None).await.unwrap_err());
        errors.push(bench.lookup(&["a"]).await.pop().unwrap().unwrap_err());
        if endpoint == echo.endpoint {
            assert!(errors.iter().all(|error| error.kind() == ErrorKind::Denied), "{errors:?}");
        }
        shown.push(format!("{errors:?}\n"));
    }
    shown.push(log.text());
    let shown = shown.concat();
    assert!(shown.contains("SignatureDoesNotMatch"), "{shown}");
    assert!(shown.contains("kvtier::object_store"), "something was logged: {shown}");
    assert!(!shown.contains("planted"), "{shown}");
}

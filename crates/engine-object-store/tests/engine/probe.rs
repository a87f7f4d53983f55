//! The probe names what to look at, for each thing that can be wrong.

use std::time::Duration;

use kvtier_core::{ErrorKind, TransferEngine};
use kvtier_engine_object_store::{ConfigKey, ObjectStoreEngine, StoreConfig, StoreUrl};
use kvtier_testkit::S3Server;
use tokio::runtime::Handle;

use crate::bench::{engine, now};
use crate::peer::{Peer, nobody, refusal, response};
use crate::round_trip::config;

async fn assert_probe(engine: &ObjectStoreEngine, kind: ErrorKind, says: &str) {
    let error = engine.probe().await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().starts_with("probe of object-store/"), "{error}");
    assert!(error.message().contains(says), "`{says}` is not in: {error}");
}

/// A healthy server passes, with and without a prefix; each wrong option is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_tells_which_option_is_wrong() {
    let server = S3Server::start().await.unwrap();
    let open = |key: ConfigKey, value: &str| {
        ObjectStoreEngine::s3(&config(&server).with(key, value).unwrap(), Handle::current()).unwrap()
    };
    open(ConfigKey::ProbeKey, "kv/probe").probe().await.unwrap();
    for (key, value, kind, says) in [
        (ConfigKey::Bucket, "nobucket", ErrorKind::Config, "look at bucket"),
        (ConfigKey::SecretKey, "wrong", ErrorKind::Denied, "look at secret_key"),
        (ConfigKey::AccessKey, "wrong", ErrorKind::Denied, "look at access_key"),
        (ConfigKey::Scheme, "https", ErrorKind::Config, "look at scheme"),
    ] {
        assert_probe(&open(key, value), kind, says).await;
    }
}

/// A port without a server, a name without an address, and a server that never answers, within the timeouts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_not_there_is_named() {
    let (_socket, address) = nobody();
    assert_probe(&engine(&address, &[]), ErrorKind::Unavailable, "look at endpoint_override").await;
    let nowhere = engine("kvtier.invalid:9000", &[(ConfigKey::RequestTimeout, "10s")]);
    assert_probe(&nowhere, ErrorKind::Unavailable, "look at endpoint_override").await;
    let silent = Peer::silent().await;
    let begin = now();
    let impatient = engine(&silent.endpoint, &[(ConfigKey::RequestTimeout, "200ms")]);
    assert_probe(&impatient, ErrorKind::Timeout, "look at endpoint_override").await;
    assert!(now() - begin < Duration::from_secs(10), "within the timeout, with room for a busy machine");
}

/// What other servers say: S3 in another region, a web server, and the store's clock or rights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_other_servers_are_understood() {
    for (answer, kind, says) in [
        (refusal("301 Moved Permanently", "PermanentRedirect"), ErrorKind::Config, "look at region"),
        (refusal("400 Bad Request", "AuthorizationHeaderMalformed"), ErrorKind::Config, "look at region"),
        (refusal("403 Forbidden", "RequestTimeTooSkewed"), ErrorKind::Denied, "clock"),
        (refusal("403 Forbidden", "AccessDenied"), ErrorKind::Denied, "rights"),
        (response("404 Not Found", 9, b"not found"), ErrorKind::Config, "look at endpoint_override"),
        (response("400 Bad Request", 0, b""), ErrorKind::Config, "look at scheme"),
        (refusal("503 Service Unavailable", "SlowDown"), ErrorKind::Throttled, "503 SlowDown"),
    ] {
        let peer = Peer::answering(answer).await;
        assert_probe(&engine(&peer.endpoint, &[]), kind, says).await;
        assert_eq!(peer.requests(), 1);
    }
}

/// Where a 403 means "absent", the probe takes S3's "access denied" for a healthy answer, but not a wrong key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_403_of_the_right_kind_is_healthy_on_request() {
    for (code, is_healthy) in [("AccessDenied", true), ("SignatureDoesNotMatch", false)] {
        let peer = Peer::answering(refusal("403 Forbidden", code)).await;
        let engine = engine(&peer.endpoint, &[(ConfigKey::Lookup403IsAbsent, "true")]);
        assert_eq!(engine.probe().await.is_ok(), is_healthy, "{code}");
    }
}

/// The probe asks below the URL's prefix, where the credentials may be bound to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probe_stays_below_the_prefix() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let peer = Peer::start(move |mut request| {
        let tell = tell.clone();
        async move {
            tell.send(request.head.lines().next().unwrap().to_owned()).unwrap();
            request.send(&refusal("404 Not Found", "NoSuchKey")).await;
        }
    })
    .await;
    let config = StoreConfig::from_pairs([
        format!("endpoint={}", peer.endpoint).as_str(),
        "access_key=id",
        "secret_key=key",
    ]);
    let url: StoreUrl = "s3://kv/tenant/a".parse().unwrap();
    ObjectStoreEngine::open(&url, &config.unwrap(), Handle::current()).unwrap().probe().await.unwrap();
    assert_eq!(told.recv().await.unwrap(), "GET /kv/tenant/a/kvtier-probe HTTP/1.1");
}

/// A directory that went away after it was opened is seen; memory is always well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let engine = ObjectStoreEngine::local(dir.path(), &StoreConfig::default(), Handle::current()).unwrap();
    engine.probe().await.unwrap();
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "the probe leaves nothing behind");
    std::fs::remove_dir(dir.path()).unwrap();
    let error = engine.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains(dir.path().to_str().unwrap()), "{error}");
}

//! The same round trip on every store.

use std::sync::Arc;

use kvtier_core::{Direction, ErrorKind, Presence, TransferEngine};
use kvtier_engine_object_store::{ConfigKey, ObjectStoreEngine, StoreConfig, StoreUrl};
use kvtier_testkit::S3Server;
use tokio::runtime::Handle;

use crate::bench::Bench;

/// More than one piece of a file, and no multiple of anything.
const BLOCK: usize = (300 << 10) + 7;

/// The options for a server of the testkit.
pub(crate) fn config(server: &S3Server) -> StoreConfig {
    let mut config = StoreConfig::default();
    for (key, value) in [
        (ConfigKey::EndpointOverride, server.endpoint().trim_start_matches("http://")),
        (ConfigKey::Bucket, server.bucket()),
        (ConfigKey::AccessKey, server.access_key()),
        (ConfigKey::SecretKey, server.secret_key()),
        (ConfigKey::Region, server.region()),
    ] {
        config.set(key, value).unwrap();
    }
    config
}

/// Names of every odd kind that all stores take.
const NAMES: [&str; 6] = [
    "a",
    "kv/m_r0/000/10_g0/00ff.bin",
    "kv/org_モデル r0/x.bin",
    "p%2Fq/100%",
    "a#b?c=d&e+f",
    "~(x)=[y]{z}\\'!*",
];

/// Stores blocks under odd names, looks them up, loads them into other slots; absent names are absent, overwriting
/// works, and every name stays its own object.
async fn round_trip(bench: &Bench) {
    for (number, name) in (1..).zip(NAMES) {
        bench.fill(0, number);
        bench.store(name).await.unwrap();
    }
    let mut answers = bench.lookup(&NAMES).await;
    answers.extend(bench.lookup(&["kv", "kv/none", "a%23b"]).await);
    let size_bytes = Some(u64::try_from(BLOCK).unwrap());
    for (at, answer) in answers.into_iter().enumerate() {
        let expected = if at < NAMES.len() { Presence::Present { size_bytes } } else { Presence::Absent };
        assert_eq!(answer.unwrap(), expected, "{at}");
    }
    for (number, name) in (1..).zip(NAMES) {
        bench.fill(0, 0);
        bench.load(name).await.unwrap();
        assert_eq!(bench.bytes(0), vec![number; BLOCK], "{name}");
    }
    let error = bench.load("kv/none").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    bench.fill(0, 9);
    bench.store("a").await.unwrap();
    bench.fill(0, 0);
    bench.load("a").await.unwrap();
    assert_eq!(bench.bytes(0), vec![9; BLOCK]);
    bench.engine.probe().await.unwrap();
}

/// Objects of the wrong length are corrupt, and many transfers at once do not mix.
async fn lengths_and_crowds(bench: &Bench, other: &Bench) {
    other.store("short").await.unwrap();
    let error = bench.load("short").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    bench.store("long").await.unwrap();
    assert_eq!(other.load("long").await.unwrap_err().kind(), ErrorKind::Corrupt);
    for direction in [Direction::Store, Direction::Load] {
        for slot in 0..4 {
            bench.fill(slot, if direction == Direction::Store { u8::try_from(slot).unwrap() + 1 } else { 0 });
        }
        let transfers =
            (0..4).map(|slot| bench.transfer(direction, &format!("crowd/{slot}"), slot)).collect();
        bench.engine.submit(transfers);
        let mut done = Vec::new();
        while done.len() < 4 {
            done.extend(bench.queue.take().transfers);
            if done.len() < 4 {
                bench.queue.posted().await;
            }
        }
        assert!(done.iter().all(|completion| completion.result.is_ok()), "{done:?}");
    }
    for slot in 0..4 {
        assert_eq!(bench.bytes(slot), vec![u8::try_from(slot).unwrap() + 1; BLOCK]);
    }
}

async fn everything(open: impl Fn() -> ObjectStoreEngine) {
    let (bench, other) = (Bench::new(open(), BLOCK, 4), Bench::new(open(), BLOCK - 1, 4));
    round_trip(&bench).await;
    lengths_and_crowds(&bench, &other).await;
}

/// S3, with signed and with unsigned payloads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3() {
    for unsigned in ["false", "true"] {
        let server = S3Server::start().await.unwrap();
        let config = config(&server).with(ConfigKey::UnsignedPayload, unsigned).unwrap();
        everything(|| ObjectStoreEngine::s3(&config, Handle::current()).unwrap()).await;
    }
}

/// A local directory, through its URL; nothing but objects is left in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory() {
    let dir = tempfile::tempdir().unwrap();
    let url: StoreUrl = format!("file://{}/made/here", dir.path().display()).parse().unwrap();
    everything(|| ObjectStoreEngine::open(&url, &StoreConfig::default(), Handle::current()).unwrap()).await;
    assert_eq!(std::fs::read(dir.path().join("made/here/a")).unwrap(), vec![9; BLOCK]);
}

/// Memory, and a store of the user's own: the same one seen twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let engine = ObjectStoreEngine::memory(&StoreConfig::default(), Handle::current()).unwrap();
    round_trip(&Bench::new(engine, BLOCK, 4)).await;
    let store = Arc::new(object_store::memory::InMemory::new());
    everything(|| {
        let store = Arc::clone(&store);
        ObjectStoreEngine::from_store(store, "own", &StoreConfig::default(), Handle::current()).unwrap()
    })
    .await;
}

/// What an engine says of itself is what was configured and what its store can do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capabilities_are_honest() {
    let config = StoreConfig::from_pairs(["concurrency=7", "lookup_concurrency=9"]).unwrap();
    let memory = ObjectStoreEngine::memory(&config, Handle::current()).unwrap();
    let capabilities = memory.capabilities();
    assert_eq!((capabilities.transfers_in_flight_max, capabilities.probes_in_flight_max), (7, 9));
    assert!(capabilities.keeps_metadata && capabilities.honours_deadline && capabilities.detects_long);
    let dir = tempfile::tempdir().unwrap();
    let local = ObjectStoreEngine::local(dir.path(), &config, Handle::current()).unwrap();
    assert_eq!(local.capabilities().name, "object-store/file");
    assert!(!local.capabilities().keeps_metadata, "object_store's directory refuses attributes");
}

/// Names that a directory cannot hold are refused for transfers and for lookups, before anything happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_names_are_refused_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let engine = ObjectStoreEngine::local(dir.path(), &StoreConfig::default(), Handle::current()).unwrap();
    let bench = Bench::new(engine, 8, 4);
    for name in ["kv/a#1", "x".repeat(255).as_str()] {
        assert_eq!(bench.store(name).await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(bench.load(name).await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(bench.lookup(&[name]).await.pop().unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    bench.store("file").await.unwrap();
    let error = bench.store("file/below").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

/// A URL and options that contradict each other, or mean nothing together, are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradictions_are_refused() {
    let open = |url: &str, pairs: &[&str]| {
        let config = StoreConfig::from_pairs(pairs).unwrap();
        ObjectStoreEngine::open(&url.parse().unwrap(), &config, Handle::current()).unwrap_err()
    };
    for (error, says) in [
        (open("s3://kv", &["bucket=other"]), "`bucket`"),
        (open("memory://", &["endpoint=127.0.0.1:1"]), "`endpoint_override` means nothing"),
        (open("file:///tmp", &["secret_key=planted"]), "`secret_key` means nothing"),
        (open("s3://kv/a//b", &["access_key=a", "secret_key=b"]), "`probe_key`"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(says), "{error}");
    }
}

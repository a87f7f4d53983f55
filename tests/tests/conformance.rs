//! Every engine passes the conformance suite, on healthy and on failing stores. Each test prints its table.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use kvtier_conformance::{Fixture, ObjectStoreDoor, Report, Suite, SuiteOptions};
use kvtier_engine_object_store::{ObjectStoreEngine, StoreConfig};
use kvtier_store::ConfigKey;
use kvtier_testkit::{CephRgw, FaultProxy, S3Options, S3Server};
use kvtier_tests::engines::{MockFixture, Open, StoreFixture};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use tokio::runtime::Handle;

async fn run(fixture: &dyn Fixture) -> Report {
    run_with(SuiteOptions::default(), fixture).await
}

/// Ceph takes a few ms for each request here: smaller batches show the same.
async fn run_on_ceph(fixture: &dyn Fixture) {
    let mut options = SuiteOptions::default();
    options.batch_max = 200;
    run_with(options, fixture).await;
}

async fn run_with(options: SuiteOptions, fixture: &dyn Fixture) -> Report {
    let report = Suite::new(options).run(fixture).await;
    println!("{report}");
    report.assert_success();
    report
}

fn config(endpoint: &str, bucket: &str, [access_key, secret_key]: [&str; 2]) -> StoreConfig {
    let pairs = [
        format!("bucket={bucket}"),
        format!("endpoint={endpoint}"),
        format!("access_key={access_key}"),
        format!("secret_key={secret_key}"),
        "region=us-east-1".to_owned(),
    ];
    StoreConfig::from_pairs(pairs).unwrap()
}

fn in_process(server: &S3Server) -> StoreConfig {
    config(server.endpoint(), server.bucket(), [server.access_key(), server.secret_key()])
}

/// The reference engine with these options.
fn reference(config: StoreConfig) -> Open {
    let handle = Handle::current();
    Box::new(move || Ok(Box::new(ObjectStoreEngine::s3(&config, handle.clone())?)))
}

/// On a healthy server, and behind a proxy that makes it fail on command; nothing does not apply there but what the
/// engine's capabilities exclude, of which there are `excluded`. No object is left.
async fn on_s3(open: impl Fn(StoreConfig) -> Open, excluded: usize) {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let healthy = in_process(&server);
    run(&StoreFixture::s3(&healthy, None, open(healthy.clone())).unwrap()).await;
    let proxy = FaultProxy::start_on_thread(server.endpoint()).unwrap();
    let failing = healthy.clone().with(ConfigKey::EndpointOverride, proxy.endpoint()).unwrap();
    let report = run(&StoreFixture::s3(&healthy, Some(proxy), open(failing)).unwrap()).await;
    assert_eq!(report.not_applicable(), excluded, "{report}");
    assert_eq!(server.store().keys(server.bucket()), [""; 0]);
}

/// The mock engine.
#[tokio::test(flavor = "multi_thread")]
async fn mock() {
    run(&MockFixture::default()).await;
}

/// The reference engine in memory.
#[tokio::test(flavor = "multi_thread")]
async fn object_store_memory() {
    let store = Arc::new(InMemory::new());
    let (door, handle) = (ObjectStoreDoor(store.clone()), Handle::current());
    let open: Open = Box::new(move || {
        let engine = ObjectStoreEngine::from_store(
            store.clone(),
            "object-store/memory",
            &StoreConfig::default(),
            handle.clone(),
        );
        Ok(Box::new(engine?))
    });
    run(&StoreFixture::new(door, open)).await;
}

/// The reference engine on a directory.
#[tokio::test(flavor = "multi_thread")]
async fn object_store_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let door = ObjectStoreDoor(Arc::new(LocalFileSystem::new_with_prefix(&path).unwrap()));
    let handle = Handle::current();
    let open: Open = Box::new(move || {
        Ok(Box::new(ObjectStoreEngine::local(&path, &StoreConfig::default(), handle.clone())?))
    });
    run(&StoreFixture::new(door, open)).await;
}

/// The reference engine on S3.
#[tokio::test(flavor = "multi_thread")]
async fn object_store_s3() {
    on_s3(reference, 0).await;
}

/// The reference engine on Ceph RGW.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's packages radosgw, ceph-mon and ceph-osd; the gate installs them"]
async fn object_store_ceph() {
    let folder = tempfile::tempdir().unwrap();
    let ceph = CephRgw::start(folder.path()).unwrap();
    let config = config(ceph.endpoint(), ceph.bucket(), [ceph.access_key(), ceph.secret_key()]);
    run_on_ceph(&StoreFixture::s3(&config, None, reference(config.clone())).unwrap()).await;
}

#[cfg(feature = "nixl")]
mod nixl {
    use kvtier_engine_nixl::NixlEngine;

    use super::*;

    fn staged(config: StoreConfig) -> Open {
        Box::new(move || Ok(Box::new(NixlEngine::s3(&config)?)))
    }

    fn zero_copy(config: StoreConfig) -> Open {
        staged(config.with(ConfigKey::ZeroCopy, "true").unwrap())
    }

    /// The NIXL engine on S3; only the case about sizes does not apply.
    #[tokio::test(flavor = "multi_thread")]
    async fn nixl_s3() {
        on_s3(staged, 1).await;
    }

    /// The same without staging; too long objects and deadlines do not apply either.
    #[tokio::test(flavor = "multi_thread")]
    async fn nixl_s3_zero_copy() {
        on_s3(zero_copy, 3).await;
    }

    /// The NIXL engine on Ceph RGW, both ways.
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Debian's packages radosgw, ceph-mon and ceph-osd; the gate installs them"]
    async fn nixl_ceph() {
        let folder = tempfile::tempdir().unwrap();
        let ceph = CephRgw::start(folder.path()).unwrap();
        let config = config(ceph.endpoint(), ceph.bucket(), [ceph.access_key(), ceph.secret_key()]);
        for open in [staged, zero_copy] {
            run_on_ceph(&StoreFixture::s3(&config, None, open(config.clone())).unwrap()).await;
        }
    }
}

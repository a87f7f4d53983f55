use kvtier_core::{Direction, ErrorKind, TransferEngine};
use kvtier_testkit::{S3Options, S3Server, TlsProxy};

use crate::rig::{PATIENCE, Rig, config, pattern};

/// Over TLS with the server's certificate in `ca_bundle`, blocks come back, with either kind of checksum; without it,
/// nothing is sent and the probe says what to look at.
#[tokio::test]
async fn blocks_come_back_over_tls() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let tls = TlsProxy::start_on_thread(server.endpoint()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    std::fs::write(&bundle, tls.certificate()).unwrap();
    let bundle = format!("ca_bundle={}", bundle.display());
    for req_checksum in ["req_checksum=required", "req_checksum=supported"] {
        let mut rig = Rig::new(&config(&server, &tls.endpoint(), &[&bundle, req_checksum]), 64 << 10, 2);
        rig.engine.probe().await.unwrap();
        rig.fill(0, &pattern(9, 64 << 10));
        rig.run(Direction::Store, &[("kv/a", 0)]).await.remove(0).unwrap();
        rig.run(Direction::Load, &[("kv/a", 1)]).await.remove(0).unwrap();
        assert!(rig.read(0) == rig.read(1), "{req_checksum}");
        rig.close(PATIENCE).await;
    }
    let before = server.requests().total();
    let rig = Rig::new(&config(&server, &tls.endpoint(), &[]), 16, 1);
    let error = rig.engine.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("ca_bundle"), "{error}");
    assert_eq!(server.requests().total(), before);
}

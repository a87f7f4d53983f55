//! TLS: only certificates that are trusted, and which certificates those are.

use std::path::PathBuf;
use std::sync::Arc;

use kvtier_core::{ErrorKind, TransferEngine};
use kvtier_engine_object_store::ConfigKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::bench::{Bench, engine};
use crate::peer::{refusal, response};

/// A server with a certificate of its own making for `localhost`. It answers every request on a connection of its own,
/// the probe's with "no such key".
async fn serve(dir: &tempfile::TempDir) -> (String, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let bundle = dir.path().join("ca.pem");
    std::fs::write(&bundle, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = [0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                let is_probe = head[..read].starts_with(b"GET /kv/kvtier-probe ");
                let answer = if is_probe {
                    refusal("404 Not Found", "NoSuchKey")
                } else {
                    response("200 OK", 8, &[7; 8])
                };
                stream.write_all(&answer).await.unwrap();
                stream.shutdown().await.unwrap();
            });
        }
    });
    (format!("https://localhost:{port}"), bundle)
}

/// With the server's certificate in `ca_bundle` everything works; without it, or for another host name, the
/// probe says that the certificate is not trusted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_trusted_certificates_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, bundle) = serve(&dir).await;
    let bundle = bundle.to_str().unwrap();
    let trusting = Bench::against(&endpoint, &[(ConfigKey::CaBundle, bundle)], 8);
    trusting.engine.probe().await.unwrap();
    trusting.load("a").await.unwrap();
    assert_eq!(trusting.bytes(0), [7; 8]);
    let other_name = endpoint.replace("localhost", "127.0.0.1");
    for engine in [engine(&endpoint, &[]), engine(&other_name, &[(ConfigKey::CaBundle, bundle)])] {
        let error = engine.probe().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.message().contains("look at ca_bundle"), "{error}");
    }
}

/// Plain HTTP to a port that speaks TLS fails without a hang, and says what to look at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_to_a_tls_port_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, _) = serve(&dir).await;
    let error = engine(&endpoint.replace("https", "http"), &[]).probe().await.unwrap_err();
    assert!(error.message().contains("look at scheme"), "{error}");
}

//! TLS in front of a server that speaks plain HTTP.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::listener::Loopback;

/// A relay on 127.0.0.1 that ends TLS with a certificate of its own making for `localhost`.
#[derive(Debug)]
pub struct TlsProxy {
    listener: Loopback,
    certificate: String,
}

impl TlsProxy {
    /// Starts a relay to the server at `upstream` (`http://host:port`) on a thread of its own.
    ///
    /// # Errors
    /// When no certificate can be made, the port cannot be opened or the thread cannot start.
    pub fn start_on_thread(upstream: &str) -> io::Result<Self> {
        let upstream: Arc<str> = upstream.trim_start_matches("http://").trim_end_matches('/').into();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)
        });
        let acceptor = TlsAcceptor::from(Arc::new(config.map_err(io::Error::other)?));
        let listener = Loopback::start_on_thread(0, move |stream| {
            let (acceptor, upstream) = (acceptor.clone(), Arc::clone(&upstream));
            async move {
                // A peer that left, or does not trust us.
                let _ = relay(&acceptor, stream, &upstream).await;
            }
        })?;
        Ok(Self { listener, certificate: made.cert.pem() })
    }

    /// The base URL, such as `https://localhost:41234`.
    pub fn endpoint(&self) -> String {
        format!("https://localhost:{}", self.listener.addr().port())
    }

    /// The certificate, as PEM: what a client has to trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }
}

async fn relay(acceptor: &TlsAcceptor, stream: TcpStream, upstream: &str) -> io::Result<()> {
    let mut client = acceptor.accept(stream).await?;
    let mut server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

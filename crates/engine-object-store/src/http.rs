use std::error::Error as StdError;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kvtier_core::Error;
use kvtier_store::{Scheme, StoreConfig};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, HeaderValue};
use rustls::ClientConfig;

use crate::resolver::SpreadingResolver;
use crate::tls;

/// Makes the HTTP clients of one store, on hyper: HTTP/1.1, one attempt, one hop. Nothing follows a redirect (in S3 it
/// means a wrong region or endpoint, and breaks the signature), unpacks content, or reads a proxy from the environment.
///
/// Not object_store's own client: its TLS provider is a setting of the whole process, which a library must not make.
#[derive(Debug)]
pub(crate) struct Connector {
    tls: ClientConfig,
    resolver: SpreadingResolver,
    connect_timeout: Duration,
    /// Enough for every request that can be in flight, so that no connection is thrown away.
    idle_connections_max: usize,
}

impl Connector {
    /// # Errors
    /// `Config` if the CA bundle cannot be used, or HTTPS finds no CA certificates at all.
    pub(crate) fn new(config: &StoreConfig, scheme: Scheme) -> Result<Self, Error> {
        let in_flight_max = config.concurrency + config.lookup_concurrency;
        Ok(Self {
            tls: tls::client(config.ca_bundle.as_deref(), scheme)?,
            resolver: SpreadingResolver::default(),
            connect_timeout: config.connect_timeout,
            idle_connections_max: usize::try_from(in_flight_max).unwrap_or(usize::MAX),
        })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = TcpConnector::new_with_resolver(self.resolver.clone());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.connect_timeout));
        let schemes = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone());
        // The providers of credentials allow plain HTTP only where AWS defines it.
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let schemes = if allow_http { schemes.https_or_http() } else { schemes.https_only() };
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(self.idle_connections_max)
            .pool_timer(TokioTimer::new())
            .build(schemes.enable_http1().wrap_connector(tcp));
        Ok(HttpClient::new(Http(client)))
    }
}

/// Most bytes read of the answer to a request that failed. S3's are below 1 KiB.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
struct Http(Client<HttpsConnector<TcpConnector<SpreadingResolver>>, HttpRequestBody>);

#[async_trait]
impl HttpService for Http {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let agent = HeaderValue::from_static(concat!("kvtier/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert("user-agent", agent);
        let response = self.0.request(request).await.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { kind(error.source()) };
            HttpError::new(kind, error)
        })?;
        if response.status().is_success() {
            let failed = |error| HttpError::new(kind(Some(&error)), error);
            return Ok(response.map(|body| HttpResponseBody::new(body.map_err(failed))));
        }
        // object_store reads a refusal to its end.
        let failed = |error| HttpError::new_boxed(HttpErrorKind::Interrupted, error);
        Ok(response.map(|body| HttpResponseBody::new(Limited::new(body, REFUSAL_BYTES_MAX).map_err(failed))))
    }
}

/// Whether the peer answered something that is not HTTP, or the connection broke.
fn kind(error: Option<&(dyn StdError + 'static)>) -> HttpErrorKind {
    match error.and_then(|error| error.downcast_ref::<hyper::Error>()) {
        Some(error) if error.is_parse() => HttpErrorKind::Decode,
        _ => HttpErrorKind::Interrupted,
    }
}

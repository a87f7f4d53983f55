//! Plain HTTP for `object_store`, which is built without a transport of its own.

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};

/// Makes one connection pool per client.
#[derive(Debug)]
pub(crate) struct PlainHttp;

impl HttpConnector for PlainHttp {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = TcpConnector::new();
        tcp.set_nodelay(true);
        Ok(HttpClient::new(Pool(Client::builder(TokioExecutor::new()).build(tcp))))
    }
}

#[derive(Debug)]
struct Pool(Client<TcpConnector, HttpRequestBody>);

#[async_trait]
impl HttpService for Pool {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // No test here asks what kind of transport error it was, and none is retried.
        let response =
            self.0.request(request).await.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        Ok(response.map(|body| {
            HttpResponseBody::new(body.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error)))
        }))
    }
}

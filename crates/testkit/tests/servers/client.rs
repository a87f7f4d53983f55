//! `object_store` clients for the servers.

use kvtier_testkit::S3Server;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder};

use crate::http::PlainHttp;

/// A client of any server; tests add a bucket and credentials.
pub(crate) fn builder(endpoint: &str) -> AmazonS3Builder {
    let no_retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_retry(no_retries)
        .with_http_connector(PlainHttp)
}

/// A client with the credentials of `server`.
pub(crate) fn authorized(server: &S3Server) -> AmazonS3Builder {
    builder(server.endpoint())
        .with_bucket_name(server.bucket())
        .with_region(server.region())
        .with_access_key_id(server.access_key())
        .with_secret_access_key(server.secret_key())
}

/// A client for the bucket of `server`.
pub(crate) fn client(server: &S3Server) -> AmazonS3 {
    authorized(server).build().unwrap()
}

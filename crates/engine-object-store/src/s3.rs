use std::sync::Arc;

use kvtier_core::Error;
use kvtier_store::{Endpoint, Environment, Scheme, StoreConfig, config_error};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::credentials::{self, Chain};
use crate::http::Connector;

/// The object_store client that the engine uses, with the same settings: for what the engine does not do, such as
/// listing and deleting, and as the bare client to compare the engine with.
///
/// It makes one attempt per request. No I/O happens here.
///
/// # Errors
/// `Config` for options that are missing or contradict each other, and a CA bundle that cannot be read.
pub fn s3_client(config: &StoreConfig) -> Result<AmazonS3, Error> {
    s3_client_in(config, &|name| std::env::var(name).ok())
}

pub(crate) fn s3_client_in(config: &StoreConfig, environment: Environment<'_>) -> Result<AmazonS3, Error> {
    let bucket = config.bucket.as_deref().ok_or_else(|| config_error("`bucket` is not given"))?;
    let region = config.region_in(environment);
    let endpoint = Endpoint::resolve(config, bucket, &region)?;
    let builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(region)
        .with_endpoint(&endpoint.url)
        .with_virtual_hosted_style_request(endpoint.is_virtual)
        .with_unsigned_payload(config.unsigned_payload)
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 0,
            retry_timeout: config.request_timeout,
        })
        .with_client_options(ClientOptions::new().with_allow_http(endpoint.scheme == Scheme::Http))
        .with_http_connector(Connector::new(config, endpoint.scheme)?);
    let builder = credentials::apply(config, environment, builder)?;
    let store = build(builder.clone())?;
    if config.access_key.is_some() {
        return Ok(store);
    }
    let chain = Chain(store.credentials().clone());
    build(builder.with_credentials(Arc::new(chain)))
}

fn build(builder: AmazonS3Builder) -> Result<AmazonS3, Error> {
    builder.build().map_err(|error| config_error(format!("S3: {error}")))
}

#[cfg(test)]
#[path = "s3_tests.rs"]
mod tests;

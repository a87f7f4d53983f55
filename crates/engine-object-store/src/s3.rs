use kvtier_core::Error;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::StoreConfig;
use crate::config::{Scheme, config_error};
use crate::credentials::{self, Chain, Environment};
use crate::endpoint::Endpoint;
use crate::http::Connector;

impl StoreConfig {
    /// The object_store client that the engine uses, with the same settings: for what the engine does not do, such as
    /// listing and deleting, and as the bare client to compare the engine with.
    ///
    /// It makes one attempt per request. No I/O happens here.
    ///
    /// # Errors
    /// `Config` for options that are missing or contradict each other, and a CA bundle that cannot be read.
    pub fn s3_client(&self) -> Result<AmazonS3, Error> {
        self.s3_client_in(&|name| std::env::var(name).ok())
    }

    pub(crate) fn s3_client_in(&self, environment: Environment<'_>) -> Result<AmazonS3, Error> {
        let bucket = self.bucket.as_deref().ok_or_else(|| config_error("`bucket` is not given"))?;
        let region = self.region.clone().or_else(|| environment("AWS_REGION"));
        let region =
            region.or_else(|| environment("AWS_DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = Endpoint::resolve(self, bucket, &region)?;
        let builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(region)
            .with_endpoint(&endpoint.url)
            .with_virtual_hosted_style_request(endpoint.is_virtual)
            .with_unsigned_payload(self.unsigned_payload)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: 0,
                retry_timeout: self.request_timeout,
            })
            .with_client_options(ClientOptions::new().with_allow_http(endpoint.scheme == Scheme::Http))
            .with_http_connector(Connector::new(self, endpoint.scheme)?);
        let builder = credentials::apply(self, environment, builder)?;
        let store = build(builder.clone())?;
        if self.access_key.is_some() {
            return Ok(store);
        }
        let chain = Chain(store.credentials().clone());
        build(builder.with_credentials(std::sync::Arc::new(chain)))
    }
}

fn build(builder: AmazonS3Builder) -> Result<AmazonS3, Error> {
    builder.build().map_err(|error| config_error(format!("S3: {error}")))
}

#[cfg(test)]
#[path = "s3_tests.rs"]
mod tests;

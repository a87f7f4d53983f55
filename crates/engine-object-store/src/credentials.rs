use std::sync::Arc;

use async_trait::async_trait;
use kvtier_core::Error;
use kvtier_store::{Environment, StoreConfig};
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use secrecy::ExposeSecret;

/// The variables of the default chain. Only who we are comes from the environment, never where the data goes:
/// `AWS_ENDPOINT_URL` and the like are not read.
const CHAIN: [&str; 12] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
];

/// Puts the given keys, or the default chain, into the builder.
///
/// # Errors
/// `Config` if the keys are given in part.
pub(crate) fn apply(
    config: &StoreConfig,
    environment: Environment<'_>,
    mut builder: AmazonS3Builder,
) -> Result<AmazonS3Builder, Error> {
    if let Some(given) = config.credentials()? {
        builder = builder
            .with_access_key_id(given.access_key.expose_secret())
            .with_secret_access_key(given.secret_key.expose_secret());
        if let Some(token) = given.session_token {
            builder = builder.with_token(token.expose_secret());
        }
        return Ok(builder);
    }
    for name in CHAIN {
        let key: Option<AmazonS3ConfigKey> = name.to_ascii_lowercase().parse().ok();
        if let (Some(key), Some(value)) = (key, environment(name)) {
            builder = builder.with_config(key, value);
        }
    }
    Ok(builder)
}

/// The store name in errors of [`Chain`], by which they are told from errors of the store.
pub(crate) const CREDENTIALS: &str = "credentials";

/// Marks errors of the default chain as such: without it, a metadata service that cannot be reached
/// looks like a store that cannot be reached.
#[derive(Debug)]
pub(crate) struct Chain(pub(crate) AwsCredentialProvider);

#[async_trait]
impl CredentialProvider for Chain {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let wrap = |source| object_store::Error::Generic { store: CREDENTIALS, source: Box::new(source) };
        self.0.get_credential().await.map_err(wrap)
    }
}

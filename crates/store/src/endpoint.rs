use kvtier_core::Error;
use url::{Host, Url};

use crate::config::{Scheme, bad_value, config_error};
use crate::{ConfigKey, StoreConfig};

/// Where requests go, worked out from the options.
#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `scheme://host[:port]`, with the bucket in front of the host for virtual addressing.
    pub url: String,
    /// Plain text or TLS.
    pub scheme: Scheme,
    /// Whether the bucket is part of the host's name.
    pub is_virtual: bool,
}

impl Endpoint {
    /// The endpoint of these options.
    ///
    /// # Errors
    /// `Config` for an endpoint that is no host, options that contradict each other, or a bucket that cannot be a part
    /// of the host's name.
    pub fn resolve(config: &StoreConfig, bucket: &str, region: &str) -> Result<Self, Error> {
        let (scheme, authority, virtual_default) = if let Some(endpoint) = &config.endpoint_override {
            let (given, authority) = split_endpoint(endpoint)?;
            (overridden_scheme(config.scheme, given)?, authority, false)
        } else {
            let scheme = config.scheme.unwrap_or(Scheme::Https);
            // AWS's certificate is for one label in front of the host, so a bucket with a dot has no valid name.
            (scheme, format!("s3.{region}.amazonaws.com"), !bucket.contains('.'))
        };
        let plain = format!("{}://{authority}", scheme.as_str());
        let host = Url::parse(&plain).ok().and_then(|url| url.host().map(|host| host.to_owned()));
        let is_virtual = config.use_virtual_addressing.unwrap_or(virtual_default);
        match host {
            None => Err(bad_endpoint(&authority)),
            Some(Host::Domain(_)) if is_virtual => {
                Ok(Self { url: format!("{}://{bucket}.{authority}", scheme.as_str()), scheme, is_virtual })
            }
            Some(_) if is_virtual => Err(config_error(
                "`use_virtual_addressing` needs an endpoint with a host name: a bucket cannot stand before an IP address",
            )),
            Some(_) => Ok(Self { url: plain, scheme, is_virtual }),
        }
    }
}

fn bad_endpoint(endpoint: &str) -> Error {
    bad_value(ConfigKey::EndpointOverride, endpoint)
}

/// Splits into the scheme, if there is one, and `host[:port]`.
fn split_endpoint(endpoint: &str) -> Result<(Option<Scheme>, String), Error> {
    if endpoint.contains('@') {
        // Not shown: what stands before the `@` may be a secret.
        return Err(config_error(
            "credentials do not belong into `endpoint_override`; use access_key and secret_key",
        ));
    }
    let (scheme, authority) = match endpoint.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Some(Scheme::Http), rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Some(Scheme::Https), rest),
        Some(_) => return Err(bad_endpoint(endpoint)),
        None => (None, endpoint),
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.is_empty() || authority.contains(|c: char| "/?#\\".contains(c) || c.is_whitespace()) {
        return Err(bad_endpoint(endpoint));
    }
    Ok((scheme, authority.to_owned()))
}

fn overridden_scheme(option: Option<Scheme>, given: Option<Scheme>) -> Result<Scheme, Error> {
    match (option, given) {
        (Some(option), Some(given)) if option != given => Err(config_error(format!(
            "`endpoint_override` begins with {} but `scheme` is {}",
            given.as_str(),
            option.as_str()
        ))),
        (Some(scheme), _) | (None, Some(scheme)) => Ok(scheme),
        (None, None) => Ok(Scheme::Http),
    }
}

#[cfg(test)]
mod tests {
    use kvtier_core::ErrorKind;

    use super::*;

    fn resolve(bucket: &str, pairs: &[&str]) -> Result<Endpoint, Error> {
        Endpoint::resolve(&StoreConfig::from_pairs(pairs)?, bucket, "eu-1")
    }

    /// Scheme and addressing style follow the endpoint unless an option says otherwise.
    #[test]
    fn defaults_follow_the_endpoint() {
        for (bucket, pairs, url) in [
            ("kv", &[][..], "https://kv.s3.eu-1.amazonaws.com"),
            ("kv.a", &[], "https://s3.eu-1.amazonaws.com"),
            ("kv", &["scheme=http", "use_virtual_addressing=false"], "http://s3.eu-1.amazonaws.com"),
            ("kv", &["endpoint=10.0.0.1:9000"], "http://10.0.0.1:9000"),
            ("kv", &["endpoint=[::1]:9000"], "http://[::1]:9000"),
            ("kv", &["endpoint=minio"], "http://minio"),
            ("kv", &["endpoint=HTTPS://minio/"], "https://minio"),
            ("kv", &["endpoint=minio", "scheme=https"], "https://minio"),
            ("kv", &["endpoint=minio:1", "use_virtual_addressing=true"], "http://kv.minio:1"),
        ] {
            let endpoint = resolve(bucket, pairs).unwrap();
            assert_eq!(endpoint.url, url, "{pairs:?}");
            assert_eq!(endpoint.is_virtual, endpoint.url.contains("//kv."), "{pairs:?}");
        }
    }

    /// What cannot be an endpoint is refused, with the option's name.
    #[test]
    fn what_is_no_endpoint_is_refused() {
        for pairs in [
            &["endpoint=ftp://minio"][..],
            &["endpoint=http://"],
            &["endpoint=minio/path"],
            &["endpoint=minio?x"],
            &["endpoint=mi nio"],
            &["endpoint=minio:port"],
            &["endpoint=http://minio", "scheme=https"],
            &["endpoint=10.0.0.1", "use_virtual_addressing=true"],
            &["endpoint=[::1]", "use_virtual_addressing=true"],
        ] {
            let error = resolve("kv", pairs).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let names_option = ["endpoint_override", "use_virtual_addressing"]
                .iter()
                .any(|name| error.message().contains(name));
            assert!(names_option, "{pairs:?}: {error}");
        }
    }

    /// A password in the endpoint is refused without being shown.
    #[test]
    fn credentials_in_the_endpoint_are_refused_unseen() {
        let error = resolve("kv", &["endpoint=http://id:planted-secret@minio"]).unwrap_err();
        assert!(!format!("{error:?}").contains("planted"), "{error:?}");
    }
}

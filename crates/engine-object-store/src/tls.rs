use std::path::Path;
use std::sync::Arc;

use kvtier_core::Error;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::ConfigKey;
use crate::config::{Scheme, config_error};

/// TLS with ring, that trusts the bundle's certificates, or the system's if there is no bundle.
///
/// # Errors
/// `Config` if the bundle cannot be used, or `https` finds no certificates at all.
pub(crate) fn client(ca_bundle: Option<&Path>, scheme: Scheme) -> Result<ClientConfig, Error> {
    let roots = match ca_bundle {
        Some(path) => bundle(path)?,
        None => system(scheme)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| config_error(format!("TLS cannot be set up: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn bundle(path: &Path) -> Result<RootCertStore, Error> {
    let bad = |why: &dyn ToString| {
        config_error(format!("`{}` {}: {}", ConfigKey::CaBundle, path.display(), why.to_string()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
        roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
    }
    if roots.is_empty() {
        return Err(bad(&"holds no certificate"));
    }
    Ok(roots)
}

/// The system's certificates. One that cannot be read is passed over, as by other TLS clients.
fn system(scheme: Scheme) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    // A container without certificates may well speak HTTP.
    if roots.is_empty() && scheme == Scheme::Https {
        return Err(config_error("TLS: this system has no CA certificates; set `ca_bundle`"));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bundle that is missing, or holds no certificate, is a configuration error with its path.
    #[test]
    fn a_bad_bundle_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        for content in
            [None, Some(""), Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]
        {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let error = client(Some(&path), Scheme::Https).unwrap_err();
            assert_eq!(error.kind(), kvtier_core::ErrorKind::Config);
            assert!(error.message().contains("`ca_bundle`") && error.message().contains("ca.pem"), "{error}");
        }
    }
}

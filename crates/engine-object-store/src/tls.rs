use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use kvtier_core::Error;
use kvtier_store::{ConfigKey, Scheme, config_error};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

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

/// Largest bundle that is read. That of a Linux distribution has a quarter of a megabyte.
const BUNDLE_BYTES_MAX: u64 = 16 << 20;

fn bundle(path: &Path) -> Result<RootCertStore, Error> {
    let bad = |why: &dyn ToString| {
        config_error(format!("`{}` {}: {}", ConfigKey::CaBundle, path.display(), why.to_string()))
    };
    // Read within a bound: the path may be a device or a pipe that never ends.
    let mut pem = Vec::new();
    let file = File::open(path).map_err(|error| bad(&error))?;
    file.take(BUNDLE_BYTES_MAX + 1).read_to_end(&mut pem).map_err(|error| bad(&error))?;
    if pem.len() as u64 > BUNDLE_BYTES_MAX {
        return Err(bad(&"is too large for a bundle of certificates"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
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
        #[cfg(unix)]
        assert!(
            client(Some(Path::new("/dev/zero")), Scheme::Https).unwrap_err().message().contains("too large")
        );
    }
}

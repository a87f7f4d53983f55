use std::ffi::CString;

use kvtier_core::Error;
use kvtier_store::{Checksum, ConfigKey, Endpoint, Environment, StoreConfig, config_error};
use secrecy::ExposeSecret;

use crate::agent::Params;

/// Parameters that switch NIXL to another client or code path, for which none of the engine's promises was shown.
const UNSAFE: [&str; 3] = ["crtMinLimit", "accelerated", "type"];

/// The parameters of an OBJ backend with `threads` threads.
///
/// # Errors
/// `Config` for options that are missing or contradict each other, and for `backend_params` that are not allowed.
pub(crate) fn params(
    config: &StoreConfig,
    threads: u32,
    environment: Environment<'_>,
) -> Result<Params, Error> {
    let bucket = config.bucket.as_deref().ok_or_else(|| config_error("`bucket` is not given"))?;
    let region = config.region_in(environment);
    let endpoint = Endpoint::resolve(config, bucket, &region)?;
    let mut params = vec![
        ("bucket", bucket.to_owned()),
        ("region", region),
        ("scheme", endpoint.scheme.as_str().to_owned()),
        ("use_virtual_addressing", endpoint.is_virtual.to_string()),
        ("num_threads", threads.to_string()),
    ];
    if config.endpoint_override.is_some() {
        // NIXL's client puts the bucket in front of the host by itself.
        let plain = endpoint.url.replacen(&format!("://{bucket}."), "://", usize::from(endpoint.is_virtual));
        params.push(("endpoint_override", plain));
    }
    if let Some(keys) = config.credentials()? {
        params.push(("access_key", keys.access_key.expose_secret().to_owned()));
        params.push(("secret_key", keys.secret_key.expose_secret().to_owned()));
        if let Some(token) = keys.session_token {
            params.push(("session_token", token.expose_secret().to_owned()));
        }
    }
    if let Some(path) = &config.ca_bundle {
        let path =
            path.to_str().ok_or_else(|| config_error("`ca_bundle` is a path that is no UTF-8 text"))?;
        params.push(("ca_bundle", path.to_owned()));
    }
    let req_checksum =
        config.req_checksum.or(config.endpoint_override.is_some().then_some(Checksum::Required));
    let checksums = [("req_checksum", req_checksum), ("resp_checksum", config.resp_checksum)];
    for (name, checksum) in checksums {
        params.extend(checksum.map(|checksum| (name, checksum.as_str().to_owned())));
    }
    let given = params.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    for (name, value) in &config.backend_params {
        refuse(name, &given)?;
        params.push((name, value.clone()));
    }
    params.into_iter().map(|(name, value)| Ok((text(name)?, text(value)?))).collect()
}

fn refuse(name: &str, given: &[&str]) -> Result<(), Error> {
    let key = ConfigKey::BackendParams;
    if UNSAFE.contains(&name) {
        return Err(config_error(format!(
            "`{key}`: `{name}` switches NIXL to code that is not safe to use here"
        )));
    }
    if given.contains(&name) || name.parse::<ConfigKey>().is_ok() {
        return Err(config_error(format!("`{key}`: `{name}` is an option of its own")));
    }
    Ok(())
}

fn text(text: impl Into<Vec<u8>>) -> Result<CString, Error> {
    CString::new(text).map_err(|_| config_error("an option holds a NUL character"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[&str]) -> Result<Vec<String>, Error> {
        let config = StoreConfig::from_pairs(pairs)?;
        let params = params(&config, 4, &|_| None)?;
        Ok(params
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_str().unwrap(), value.to_str().unwrap()))
            .collect())
    }

    /// The options become NIXL's parameters; a plain, signed upload is the default for servers that are not AWS.
    #[test]
    fn options_become_parameters() {
        let plain = of(&["bucket=kv"]).unwrap();
        assert!(!plain.iter().any(|param| param.contains("checksum") || param.contains("endpoint")));
        assert!(plain.contains(&"region=us-east-1".to_owned()));
        let given = of(&["bucket=kv", "endpoint=http://h:1", "access_key=a", "secret_key=b", "region=r"]);
        let given = given.unwrap();
        for param in [
            "endpoint_override=http://h:1",
            "scheme=http",
            "use_virtual_addressing=false",
            "access_key=a",
            "secret_key=b",
            "req_checksum=required",
            "num_threads=4",
            "region=r",
        ] {
            assert!(given.contains(&param.to_owned()), "{param}: {given:?}");
        }
        let virtual_host = of(&["bucket=kv", "endpoint=h:1", "use_virtual_addressing=true"]).unwrap();
        assert!(virtual_host.contains(&"endpoint_override=http://h:1".to_owned()), "{virtual_host:?}");
    }

    /// Parameters for vendors go through; unsafe ones, and options under another name, do not.
    #[test]
    fn backend_params_are_sifted() {
        let with = |name: &str| of(&["bucket=kv", &format!(r#"backend_params={{"{name}":"x"}}"#)]);
        assert!(with("vendor_option").unwrap().contains(&"vendor_option=x".to_owned()));
        for name in UNSAFE.iter().chain(&["bucket", "num_threads", "secret_key", "endpoint"]) {
            let error = with(name).unwrap_err();
            assert!(error.message().contains(name), "{error}");
        }
        assert!(of(&[]).unwrap_err().message().contains("bucket"));
    }
}

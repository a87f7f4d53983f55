//! Any JSON as a store's configuration, and any text as its URL: read or refused, never a panic; what is refused as `Config`
//! shows no secret, and what is read means the same again.
#![no_main]

use kvtier_core::ErrorKind;
use kvtier_store::{ConfigKey, Endpoint, StoreConfig, StoreUrl};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|text: &str| {
    if let Ok(url) = text.parse::<StoreUrl>() {
        let _ = url.prefix();
    }
    let Ok(object) = serde_json::from_str::<Map<String, Value>>(text) else { return };
    match StoreConfig::from_json(&object) {
        Ok(config) => {
            let again = StoreConfig::from_json(&object).unwrap();
            assert_eq!(format!("{config:?}"), format!("{again:?}"));
            let _ = Endpoint::resolve(&config, "bucket", "region");
            let _ = config.credentials();
            let _ = config.probe_object();
            for key in ConfigKey::ALL.into_iter().filter(|key| key.is_secret() && config.is_given(*key)) {
                let secret = object.get(key.as_str()).and_then(Value::as_str).unwrap_or_default();
                // A short one may stand in the text by chance.
                assert!(secret.len() < 24 || !format!("{config:?}").contains(secret), "a secret is shown");
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Config),
    }
});

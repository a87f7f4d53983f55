use secrecy::ExposeSecret;
use serde_json::json;

use super::*;

fn from_json(value: &Value) -> Result<StoreConfig, Error> {
    StoreConfig::from_json(value.as_object().unwrap())
}

/// vLLM's own `store_config` is read as it stands.
#[test]
fn vllm_store_config_is_read() {
    let config = from_json(&json!({
        "bucket": "kv", "endpoint_override": "127.0.0.1:9000", "access_key": "id", "secret_key": "key",
        "session_token": "", "region": null, "scheme": "http", "ca_bundle": "/etc/ca.pem"
    }))
    .unwrap();
    assert_eq!(config.bucket.as_deref(), Some("kv"));
    assert_eq!(config.endpoint_override.as_deref(), Some("127.0.0.1:9000"));
    assert_eq!(config.secret_key.as_ref().map(ExposeSecret::expose_secret), Some("key"));
    assert!(config.session_token.is_none() && config.region.is_none());
    assert_eq!(config.scheme, Some(Scheme::Http));
    assert_eq!(config.ca_bundle, Some(PathBuf::from("/etc/ca.pem")));
}

/// A good value for each key, not its default: what the other tests walk over.
fn sample(key: ConfigKey) -> &'static str {
    match key {
        ConfigKey::Bucket => "kv",
        ConfigKey::EndpointOverride => "localhost:1",
        ConfigKey::AccessKey | ConfigKey::SecretKey | ConfigKey::SessionToken => "planted-secret",
        ConfigKey::Region => "eu-1",
        ConfigKey::Scheme => "https",
        ConfigKey::CaBundle => "/ca.pem",
        ConfigKey::UseVirtualAddressing
        | ConfigKey::UnsignedPayload
        | ConfigKey::Lookup403IsAbsent
        | ConfigKey::ZeroCopy => "true",
        ConfigKey::RequestTimeout | ConfigKey::ConnectTimeout => "1500ms",
        ConfigKey::Concurrency | ConfigKey::LookupConcurrency => "7",
        ConfigKey::ProbeKey => "a/probe",
        ConfigKey::NumThreads | ConfigKey::LookupThreads => "3",
        ConfigKey::ReqChecksum | ConfigKey::RespChecksum => "required",
        ConfigKey::StagingBytes => "1048576",
        ConfigKey::NixlLibrary => "/nixl/libnixl_capi.so",
        ConfigKey::BackendParams => r#"{"vendor":"x"}"#,
    }
}

/// Each key changes the configuration, and JSON, pairs and code give the same one.
#[test]
fn each_key_has_one_meaning_from_everywhere() {
    let default = format!("{:?}", Settings::default());
    for key in ConfigKey::ALL {
        let value = sample(key);
        let code = StoreConfig::default().with(key, value).unwrap();
        let pairs = StoreConfig::from_pairs([format!("{key}={value}")]).unwrap();
        let json = from_json(&json!({ key.as_str(): value })).unwrap();
        assert_eq!(format!("{code:?}"), format!("{pairs:?}"), "{key}");
        assert_eq!(format!("{code:?}"), format!("{json:?}"), "{key}");
        assert!(code.is_given(key));
        assert_ne!(format!("{:?}", code.settings), default, "{key} changes nothing");
    }
}

/// Numbers and booleans may be written as such in JSON.
#[test]
fn json_numbers_and_booleans_are_values() {
    let config =
        from_json(&json!({ "request_timeout": 2.5, "concurrency": 8, "unsigned_payload": true })).unwrap();
    assert_eq!(config.request_timeout, Duration::from_millis(2500));
    assert_eq!(config.concurrency, 8);
    assert!(config.unsigned_payload);
}

/// A value that a key does not take is refused with the key, what it takes and what was given.
#[test]
fn bad_values_say_what_is_expected() {
    for (key, value) in [
        (ConfigKey::Bucket, "a/b"),
        (ConfigKey::Bucket, ".."),
        (ConfigKey::Bucket, "id:key@kv"),
        (ConfigKey::Region, "eu 1"),
        (ConfigKey::Scheme, "ftp"),
        (ConfigKey::UseVirtualAddressing, "yes"),
        (ConfigKey::RequestTimeout, "0"),
        (ConfigKey::RequestTimeout, "-1"),
        (ConfigKey::RequestTimeout, "NaN"),
        (ConfigKey::RequestTimeout, "2days"),
        (ConfigKey::ConnectTimeout, "soon"),
        (ConfigKey::Concurrency, "0"),
        (ConfigKey::LookupConcurrency, "5000"),
        (ConfigKey::NumThreads, "0"),
        (ConfigKey::LookupThreads, "26"),
        (ConfigKey::ReqChecksum, "always"),
        (ConfigKey::StagingBytes, "64MiB"),
        (ConfigKey::BackendParams, r#"{"a": 1}"#),
    ] {
        let error = StoreConfig::default().with(key, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(error.message(), format!("`{key}` takes {}, not `{value}`", key.expects()));
    }
    assert!(from_json(&json!({ "bucket": ["kv"] })).unwrap_err().message().contains("bucket"));
}

/// An unknown key, a key given twice by its alias, and a pair without `=` are refused.
#[test]
fn odd_keys_are_refused() {
    let error = from_json(&json!({ "endpont": "x" })).unwrap_err();
    assert!(error.message().contains("did you mean `endpoint_override`"), "{error}");
    let error = from_json(&json!({ "endpoint": "x", "endpoint_override": "y" })).unwrap_err();
    assert!(error.message().contains("given twice"), "{error}");
    assert!(StoreConfig::from_pairs(["bucket"]).unwrap_err().message().contains("key=value"));
}

/// A secret is in no `Debug` and in no error, also when it cannot be used or stands in the wrong place.
#[test]
fn secrets_are_never_shown() {
    let mut shown = Vec::new();
    let mut config = StoreConfig::default();
    for key in ConfigKey::ALL.into_iter().filter(|key| key.is_secret()) {
        config.set(key, "planted-secret").unwrap();
        for bad in ["planted secret", "planted\u{fc}"] {
            shown.push(format!("{:?}", StoreConfig::default().with(key, bad).unwrap_err()));
        }
        shown.push(format!("{:?}", from_json(&json!({ key.as_str(): ["planted"] })).unwrap_err()));
    }
    shown.push(format!("{config:?}"));
    shown.push(format!("{:?}", StoreConfig::from_pairs(["planted-secret"]).unwrap_err()));
    let shown = shown.concat();
    assert!(!shown.contains("planted"), "{shown}");
    assert!(shown.contains("secret_key"), "{shown}");
}

/// An option that means nothing to its reader is refused by name, and every option means something to somebody.
#[test]
fn options_of_others_are_refused() {
    let users = [ConfigUser::ObjectStoreS3, ConfigUser::ObjectStoreOther, ConfigUser::Nixl];
    for key in ConfigKey::ALL {
        let config = StoreConfig::default().with(key, sample(key)).unwrap();
        for user in users {
            let refused = config.refuse_others(user, "a store");
            assert_eq!(refused.is_ok(), key.is_for(user), "{key} {user:?}");
            assert!(refused.err().is_none_or(|error| error.message().contains(key.as_str())));
        }
        assert!(users.iter().any(|user| key.is_for(*user)), "{key}");
    }
}

/// Parameters of the backend are an object, in JSON and in text.
#[test]
fn backend_params_are_an_object() {
    let config = from_json(&json!({ "backend_params": { "vendor": "x" } })).unwrap();
    assert_eq!(config.backend_params, BTreeMap::from([("vendor".to_owned(), "x".to_owned())]));
    let text = StoreConfig::from_pairs([r#"backend_params={"vendor":"x"}"#]).unwrap();
    assert_eq!(text.backend_params, config.backend_params);
}

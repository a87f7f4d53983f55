use kvtier_core::ErrorKind;
use object_store::ObjectStoreExt;

use super::*;

fn config(pairs: &[&str]) -> StoreConfig {
    StoreConfig::from_pairs(pairs).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn key_id(store: &AmazonS3) -> object_store::Result<String> {
    runtime().block_on(async { Ok(store.credentials().get_credential().await?.key_id.clone()) })
}

/// Without keys the environment's are used; with keys the environment's are not.
#[test]
fn given_keys_win_over_the_environment() {
    let environment = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("from-environment".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("key".to_owned()),
        _ => None,
    };
    let chained = s3_client_in(&config(&["bucket=kv"]), &environment).unwrap();
    assert_eq!(key_id(&chained).unwrap(), "from-environment");
    let given =
        s3_client_in(&config(&["bucket=kv", "access_key=given", "secret_key=key"]), &environment).unwrap();
    assert_eq!(key_id(&given).unwrap(), "given");
}

/// The environment says who we are, and where AWS is, but not another endpoint, bucket or addressing style.
#[test]
fn the_environment_does_not_redirect_data() {
    let environment = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("key".to_owned()),
        "AWS_REGION" => Some("eu-1".to_owned()),
        "AWS_DEFAULT_REGION" => Some("eu-2".to_owned()),
        _ => name.starts_with("AWS_").then(|| "http://elsewhere".to_owned()),
    };
    let store = s3_client_in(&config(&["bucket=kv"]), &environment).unwrap();
    let shown = format!("{store:?}");
    assert!(shown.contains("https://kv.s3.eu-1.amazonaws.com"), "{shown}");
    assert!(!shown.contains("elsewhere"), "{shown}");
    let store = s3_client_in(&config(&["bucket=kv", "region=us-2"]), &environment).unwrap();
    assert!(format!("{store:?}").contains("https://kv.s3.us-2.amazonaws.com"));
}

/// Keys that are given in part are refused with the name of what is missing.
#[test]
fn keys_given_in_part_are_refused() {
    for (pairs, missing) in [
        (&["bucket=kv", "access_key=planted"][..], "secret_key"),
        (&["bucket=kv", "secret_key=planted"], "access_key"),
        (&["bucket=kv", "session_token=planted"], "access_key"),
        (&[], "bucket"),
    ] {
        let error = s3_client_in(&config(pairs), &|_| None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(missing), "{error}");
        assert!(!format!("{error:?}").contains("planted"));
    }
    let half = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "planted".to_owned());
    let error = s3_client_in(&config(&["bucket=kv"]), &half).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && !format!("{error:?}").contains("planted"), "{error:?}");
}

/// Where nobody gives credentials, the error says so; it does not look like a store that cannot be reached.
#[test]
fn a_chain_without_credentials_says_so() {
    // A port that was free a moment ago: nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let environment =
        |name: &str| (name == "AWS_METADATA_ENDPOINT").then(|| format!("http://127.0.0.1:{port}"));
    let store = s3_client_in(&config(&["bucket=kv", "endpoint=127.0.0.1:1"]), &environment).unwrap();
    let error = runtime().block_on(store.head(&"a".into())).unwrap_err();
    let error = crate::classify::classify("HEAD a", &error);
    assert!(error.message().contains("no credentials"), "{error}");
    assert!(error.message().contains("Connection refused"), "{error}");
}

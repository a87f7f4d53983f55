//! Listings, page by page.

use futures_util::TryStreamExt as _;
use kvtier_testkit::S3Server;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _};

use crate::client::client;

fn names(listed: &[ObjectMeta]) -> Vec<String> {
    listed.iter().map(|object| object.location.to_string()).collect()
}

/// More keys than a page holds come back once each and in order, with their sizes.
#[tokio::test]
async fn pages() {
    let server = S3Server::start().await.unwrap();
    for index in 0..2005 {
        server.store().insert(server.bucket(), &format!("keys/{index:04}"), vec![0; index % 7]);
    }
    server.store().insert(server.bucket(), "keyz", "not under the prefix");
    let listed: Vec<_> = client(&server).list(Some(&Path::from("keys"))).try_collect().await.unwrap();
    assert_eq!(names(&listed), (0..2005).map(|index| format!("keys/{index:04}")).collect::<Vec<_>>());
    assert!(listed.iter().enumerate().all(|(index, object)| object.size == index as u64 % 7));
    assert_eq!(server.requests().get, 3);
}

/// A listing with a delimiter names each group once, even where groups are cut by the end of a page.
#[tokio::test]
async fn groups() {
    let server = S3Server::start().await.unwrap();
    for index in 0..1500 {
        for part in ["a", "b/c"] {
            server.store().insert(server.bucket(), &format!("root/{index:04}/{part}"), "body");
        }
    }
    server.store().insert(server.bucket(), "root/file", "body");
    let listed = client(&server).list_with_delimiter(Some(&Path::from("root"))).await.unwrap();
    let groups: Vec<_> = listed.common_prefixes.iter().map(ToString::to_string).collect();
    assert_eq!(groups, (0..1500).map(|index| format!("root/{index:04}")).collect::<Vec<_>>());
    assert_eq!(names(&listed.objects), ["root/file"]);
}

/// A listing with an offset starts behind it; one of a prefix nobody used is empty.
#[tokio::test]
async fn offset_and_nothing() {
    let server = S3Server::start().await.unwrap();
    for key in ["k/1", "k/2", "k/3"] {
        server.store().insert(server.bucket(), key, "body");
    }
    let client = client(&server);
    let prefix = Path::from("k");
    let listed: Vec<_> =
        client.list_with_offset(Some(&prefix), &Path::from("k/1")).try_collect().await.unwrap();
    assert_eq!(names(&listed), ["k/2", "k/3"]);
    let listed: Vec<_> = client.list(Some(&Path::from("unused"))).try_collect().await.unwrap();
    assert_eq!(names(&listed), [""; 0]);
}

/// A listing of a missing bucket says NoSuchBucket instead of being empty.
#[tokio::test]
async fn missing_bucket() {
    let server = S3Server::start().await.unwrap();
    let elsewhere = crate::client::authorized(&server).with_bucket_name("elsewhere").build().unwrap();
    let error = elsewhere.list(None).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(format!("{error:?}").contains("NoSuchBucket"), "{error:?}");
}

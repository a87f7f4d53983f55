//! Objects: written, read, copied, deleted.

use bytes::Bytes;
use kvtier_testkit::{S3Options, S3Server};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutOptions,
};

use crate::client::{authorized, client};
use crate::wire::{Request, assert_status};

/// Bytes that differ from place to place, so that a shifted body is noticed.
fn pattern(bytes: usize) -> Bytes {
    (0..bytes).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect::<Vec<u8>>().into()
}

/// Bodies from empty to several MiB come back as they were written, over HTTP and from the store.
#[tokio::test]
async fn round_trip() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    for bytes in [0, 1, 65_536, (1 << 20) + 1, 3 << 20] {
        let path = Path::from(format!("block-{bytes}"));
        let put = client.put(&path, pattern(bytes).into()).await.unwrap();
        assert_eq!(server.store().get(server.bucket(), path.as_ref()), Some(pattern(bytes)));
        let got = client.get(&path).await.unwrap();
        assert_eq!(got.meta.e_tag, put.e_tag);
        assert_eq!(got.bytes().await.unwrap(), pattern(bytes));
        assert_eq!(client.head(&path).await.unwrap().size, bytes as u64);
    }
}

/// A missing key is NotFound and says NoSuchKey; a missing bucket says NoSuchBucket, for reads and writes.
#[tokio::test]
async fn missing_key_and_missing_bucket_differ() {
    let server = S3Server::start().await.unwrap();
    let path = Path::from("missing");
    let error = client(&server).get(&path).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    assert!(format!("{error:?}").contains("NoSuchKey"), "{error:?}");
    let error = client(&server).head(&path).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");

    let elsewhere = authorized(&server).with_bucket_name("elsewhere").build().unwrap();
    let error = elsewhere.get(&path).await.unwrap_err();
    assert!(format!("{error:?}").contains("NoSuchBucket"), "{error:?}");
    let error = elsewhere.put(&path, "body".into()).await.unwrap_err();
    assert!(format!("{error:?}").contains("NoSuchBucket"), "{error:?}");
}

/// A wrong secret, an unknown access key and no signature at all are refused with 403.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn strangers_are_refused() {
    let server = S3Server::start().await.unwrap();
    server.store().insert(server.bucket(), "object", "body");
    let path = Path::from("object");
    let wrong_secret = authorized(&server).with_secret_access_key("wrong").build().unwrap();
    let unknown_key = authorized(&server).with_access_key_id("unknown").build().unwrap();
    let anonymous = authorized(&server).with_skip_signature(true).build().unwrap();
    for stranger in [wrong_secret, unknown_key, anonymous] {
        let error = stranger.get(&path).await.unwrap_err();
        assert!(format!("{error:?}").contains("403"), "{error:?}");
        // Large enough that the server answers before it has all of it: the answer must arrive even so.
        let error = stranger.put(&path, pattern(8 << 20).into()).await.unwrap_err();
        assert!(format!("{error:?}").contains("403"), "{error:?}");
    }
    assert_eq!(server.store().get(server.bucket(), "object"), Some(Bytes::from("body")));
}

/// Ranges inside the object, over its end and from its end; one that starts past the end is refused with 416.
#[tokio::test]
async fn ranges() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let path = Path::from("object");
    let body = pattern(1000);
    server.store().insert(server.bucket(), "object", body.clone());
    assert_eq!(client.get_range(&path, 10..20).await.unwrap(), body.slice(10..20));
    assert_eq!(client.get_range(&path, 0..65_536).await.unwrap(), body);
    assert_eq!(client.get_range(&path, 999..1001).await.unwrap(), body.slice(999..));
    for (range, wanted) in
        [(GetRange::Suffix(7), body.slice(993..)), (GetRange::Offset(400), body.slice(400..))]
    {
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        assert_eq!(client.get_opts(&path, options).await.unwrap().bytes().await.unwrap(), wanted);
    }
    let answer = Request::get(&server, "object").with("range", "bytes=0-65535").send(&server, b"").await;
    assert_status(&answer, 206);
    assert!(answer.contains("content-range: bytes 0-999/1000\r\n"), "{answer}");
    let answer = Request::get(&server, "object").with("range", "bytes=1000-1001").send(&server, b"").await;
    assert_status(&answer, 416);
    assert!(answer.contains("<Code>InvalidRange</Code>"), "{answer}");
}

/// A deleted object is gone; deleting it again is no error; other objects stay.
#[tokio::test]
async fn delete() {
    let server = S3Server::start().await.unwrap();
    let single = authorized(&server).with_disable_bulk_delete(true).build().unwrap();
    for client in [client(&server), single] {
        for key in ["gone", "stays"] {
            server.store().insert(server.bucket(), key, "body");
        }
        client.delete(&Path::from("gone")).await.unwrap();
        client.delete(&Path::from("gone")).await.unwrap();
        assert_eq!(server.store().keys(server.bucket()), ["stays"]);
    }
    assert_eq!((server.requests().post, server.requests().delete), (2, 2));
}

/// A copy has the body and the attributes of its source.
#[tokio::test]
async fn copy() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let (from, to) = (Path::from("from one"), Path::from("to/two"));
    let attributes = Attributes::from_iter([(Attribute::ContentType, "text/plain")]);
    client.put_opts(&from, "body".into(), PutOptions { attributes, ..PutOptions::default() }).await.unwrap();
    client.copy(&from, &to).await.unwrap();
    let got = client.get(&to).await.unwrap();
    assert_eq!(got.attributes.get(&Attribute::ContentType).unwrap().as_ref(), "text/plain");
    assert_eq!(got.bytes().await.unwrap(), "body");
}

/// User metadata and content headers come back with HEAD and with a ranged GET.
#[tokio::test]
async fn attributes() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let path = Path::from("object");
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, "application/x-kv"),
        (Attribute::CacheControl, "no-store"),
        (Attribute::Metadata("layout".into()), "v1"),
    ]);
    let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
    client.put_opts(&path, "0123456789".into(), options).await.unwrap();
    let ranged = GetOptions { range: Some((2..4).into()), ..GetOptions::default() };
    let head = GetOptions { head: true, ..GetOptions::default() };
    for options in [ranged, head] {
        assert_eq!(client.get_opts(&path, options).await.unwrap().attributes, attributes);
    }
}

/// Keys that URLs, signatures and XML treat with care are the same in the store and in a listing.
#[tokio::test]
async fn odd_keys() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let long = "s".repeat(600);
    let keys = [
        "a",
        "a/b",
        "a b",
        "a@b+c&d=e",
        "gr\u{fc}n/\u{6a21}\u{578b}/\u{1f511}",
        "100%25",
        "x#y?z",
        "<&>\"'",
        "~tilde.dot-dash_",
        long.as_str(),
    ];
    for key in keys {
        // `Path` does not allow all of these, so they go over the wire unchanged.
        assert_status(&Request::put(&server, key, key.as_bytes()).send(&server, key.as_bytes()).await, 200);
        assert_eq!(server.store().get(server.bucket(), key), Some(Bytes::from(key.to_owned())), "{key}");
        let answer = Request::get(&server, key).send(&server, b"").await;
        assert_status(&answer, 200);
        assert!(answer.ends_with(&format!("\r\n\r\n{key}")), "{key}: {answer}");
        let path = Path::from(format!("through-the-client/{key}"));
        client.put(&path, "body".into()).await.unwrap();
        assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), "body", "{key}");
        assert_eq!(server.store().get(server.bucket(), path.as_ref()), Some(Bytes::from("body")), "{key}");
    }
    assert_eq!(server.store().keys(server.bucket()).len(), 2 * keys.len());
}

/// A multipart object is the sum of its parts and readable over their border; an aborted one leaves nothing.
#[tokio::test]
async fn multipart() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let path = Path::from("large");
    let parts = [pattern(5 << 20), pattern(6 << 20), pattern(1000)];
    let whole: Bytes = parts.concat().into();
    let mut upload = client.put_multipart(&path).await.unwrap();
    for part in &parts {
        upload.put_part(part.clone().into()).await.unwrap();
    }
    assert_eq!(server.store().keys(server.bucket()), [""; 0]);
    upload.complete().await.unwrap();
    assert_eq!(server.store().get(server.bucket(), "large"), Some(whole.clone()));
    let border = (5 << 20) - 10..(5 << 20) + 10;
    let got = client.get_range(&path, border.clone()).await.unwrap();
    assert_eq!(
        got,
        whole.slice(usize::try_from(border.start).unwrap()..usize::try_from(border.end).unwrap())
    );

    let mut aborted = client.put_multipart(&Path::from("aborted")).await.unwrap();
    aborted.put_part(pattern(1000).into()).await.unwrap();
    aborted.abort().await.unwrap();
    assert!(aborted.complete().await.is_err());

    let mut small = client.put_multipart(&Path::from("small")).await.unwrap();
    for _ in 0..2 {
        small.put_part(pattern(1000).into()).await.unwrap();
    }
    let error = small.complete().await.unwrap_err();
    assert!(format!("{error:?}").contains("EntityTooSmall"), "{error:?}");
    assert_eq!(server.store().keys(server.bucket()), ["large"]);
}

/// What a test plants in the store is what a client reads, and what it takes away is missing.
#[tokio::test]
async fn planted_objects() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let path = Path::from("object");
    client.put(&path, pattern(4096).into()).await.unwrap();
    server.store().insert(server.bucket(), "object", pattern(1000));
    assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), pattern(1000));
    assert_eq!(server.store().remove(server.bucket(), "object"), Some(pattern(1000)));
    assert!(matches!(client.get(&path).await, Err(Error::NotFound { .. })));
}

/// Extra buckets exist from the start, and objects of one bucket are not in another.
#[tokio::test]
async fn extra_buckets() {
    let options = S3Options { extra_buckets: vec!["second".into()], ..S3Options::default() };
    let server = S3Server::start_with(&options).await.unwrap();
    let second = authorized(&server).with_bucket_name("second").build().unwrap();
    second.put(&Path::from("object"), "body".into()).await.unwrap();
    assert_eq!(server.store().keys("second"), ["object"]);
    assert_eq!(server.store().keys(server.bucket()), [""; 0]);
}

/// Buckets can be made, looked at and removed, but not while they hold objects.
#[tokio::test]
async fn bucket_operations() {
    let server = S3Server::start().await.unwrap();
    let bucket = |method| Request {
        method,
        bucket: "fresh".into(),
        ..Request::get(&server, "").with("content-length", "0")
    };
    assert_status(&bucket("HEAD").send(&server, b"").await, 404);
    assert_status(&bucket("PUT").send(&server, b"").await, 200);
    assert_status(&bucket("PUT").send(&server, b"").await, 409);
    assert_status(&bucket("HEAD").send(&server, b"").await, 200);
    server.store().insert("fresh", "object", "body");
    assert_status(&bucket("DELETE").send(&server, b"").await, 409);
    server.store().remove("fresh", "object");
    assert_status(&bucket("DELETE").send(&server, b"").await, 204);
    assert_status(&bucket("HEAD").send(&server, b"").await, 404);
}

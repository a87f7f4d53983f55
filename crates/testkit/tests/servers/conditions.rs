//! Conditional writes and reads.

use std::sync::Arc;

use kvtier_testkit::{EtagSource, S3Options, S3Server};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion,
};
use tokio::task::JoinSet;

use crate::client::client;

const WRITERS: usize = 16;
const ROUNDS: usize = 10;

fn mode(mode: PutMode) -> PutOptions {
    PutOptions { mode, ..PutOptions::default() }
}

/// Lets all writers write one key at once; tells whose bodies the server took.
async fn race(client: &Arc<AmazonS3>, path: &Path, put_mode: &PutMode) -> Vec<usize> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (client, path, options) = (Arc::clone(client), path.clone(), mode(put_mode.clone()));
        writers.spawn(async move {
            match client.put_opts(&path, writer.to_string().into(), options).await {
                Ok(_) => Some(writer),
                Err(Error::AlreadyExists { .. }) => None,
                Err(error) => panic!("{error:?}"),
            }
        });
    }
    writers.join_all().await.into_iter().flatten().collect()
}

/// Of 16 concurrent `If-None-Match: *` writers exactly one wins, in each of 10 rounds, and its body stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_winner() {
    let server = S3Server::start().await.unwrap();
    let client = Arc::new(client(&server));
    for round in 0..ROUNDS {
        let path = Path::from(format!("round-{round}"));
        let winners = race(&client, &path, &PutMode::Create).await;
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let stored = server.store().get(server.bucket(), path.as_ref()).unwrap();
        assert_eq!(stored, winners[0].to_string(), "round {round}");
    }
    assert_eq!(server.requests().put, (WRITERS * ROUNDS) as u64);
}

/// Negative control of `one_winner`: without the condition every writer is taken for a winner.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_winners_are_noticed() {
    let server = S3Server::start().await.unwrap();
    let winners = race(&Arc::new(client(&server)), &Path::from("key"), &PutMode::Overwrite).await;
    assert_eq!(winners.len(), WRITERS);
}

/// `If-Match` replaces only the version it names and never makes an object, with both kinds of ETag.
#[tokio::test]
async fn update() {
    for etag in [EtagSource::Counter, EtagSource::Md5] {
        let server = S3Server::start_with(&S3Options { etag, ..S3Options::default() }).await.unwrap();
        let client = client(&server);
        let path = Path::from("key");
        let first = UpdateVersion::from(client.put(&path, "first".into()).await.unwrap());
        let update = mode(PutMode::Update(first.clone()));
        client.put_opts(&path, "second".into(), update.clone()).await.unwrap();
        let error = client.put_opts(&path, "third".into(), update).await.unwrap_err();
        assert!(matches!(error, Error::Precondition { .. }), "{error:?}");
        assert_eq!(server.store().get(server.bucket(), "key").unwrap(), "second");
        let missing = Path::from("missing");
        assert!(client.put_opts(&missing, "x".into(), mode(PutMode::Update(first))).await.is_err());
        assert_eq!(server.store().keys(server.bucket()), ["key"]);
    }
}

/// The MD5 ETag is the MD5 of the body ("abc" from RFC 1321, appendix A.5); the counter differs from write to write.
#[tokio::test]
async fn etags() {
    let md5 = S3Options { etag: EtagSource::Md5, ..S3Options::default() };
    let server = S3Server::start_with(&md5).await.unwrap();
    let put = client(&server).put(&Path::from("key"), "abc".into()).await.unwrap();
    assert_eq!(put.e_tag.unwrap(), "\"900150983cd24fb0d6963f7d28e17f72\"");

    let server = S3Server::start().await.unwrap();
    let first = client(&server).put(&Path::from("key"), "abc".into()).await.unwrap();
    let second = client(&server).put(&Path::from("key"), "abc".into()).await.unwrap();
    assert_ne!(first.e_tag, second.e_tag);
}

/// A read is answered with 304 or 412 as its ETag and time conditions say, and with the object otherwise.
#[tokio::test]
async fn conditional_reads() {
    let server = S3Server::start().await.unwrap();
    let client = client(&server);
    let path = Path::from("key");
    let etag = client.put(&path, "body".into()).await.unwrap().e_tag;
    let time = client.head(&path).await.unwrap().last_modified;
    let other = Some("\"other\"".to_owned());
    let default = GetOptions::default();
    let refused = [
        GetOptions { if_none_match: etag.clone(), ..default.clone() },
        GetOptions { if_match: other.clone(), ..default.clone() },
        GetOptions { if_modified_since: Some(time), ..default.clone() },
    ];
    for options in refused {
        let error = client.get_opts(&path, options.clone()).await.unwrap_err();
        assert!(
            matches!(error, Error::NotModified { .. } | Error::Precondition { .. }),
            "{options:?}: {error:?}"
        );
    }
    let answered = [
        GetOptions { if_none_match: other, ..default.clone() },
        GetOptions { if_match: etag, ..default.clone() },
        GetOptions { if_unmodified_since: Some(time), ..default },
    ];
    for options in answered {
        assert_eq!(client.get_opts(&path, options).await.unwrap().bytes().await.unwrap(), "body");
    }
}

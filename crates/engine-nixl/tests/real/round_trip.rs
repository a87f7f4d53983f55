use kvtier_core::{Direction, ErrorKind, Presence, TransferEngine};
use kvtier_testkit::{S3Options, S3Server};

use crate::rig::{MODES, PATIENCE, Rig, config, pattern};

/// Blocks of every size come back byte for byte; the objects are the blocks, under their names.
#[tokio::test]
async fn blocks_come_back() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    for mode in MODES {
        for bytes in [1, 15, 4 << 10, 64 << 10, 1 << 20, 8 << 20] {
            let mut rig = Rig::new(&config(&server, server.endpoint(), &[mode]), bytes, 8);
            let names: Vec<_> =
                (0..4).map(|block| format!("kv/{mode}/{bytes}/block {block}+ü.bin")).collect();
            let at = |first: u32| names.iter().map(String::as_str).zip(first..).collect::<Vec<_>>();
            for slot in 0..4 {
                rig.fill(slot, &pattern(u64::from(slot) + bytes as u64, bytes));
            }
            for result in rig.run(Direction::Store, &at(0)).await {
                result.unwrap();
            }
            assert_eq!(
                server.store().get(server.bucket(), &names[2]).unwrap(),
                rig.read(2),
                "{mode} {bytes}"
            );
            for result in rig.run(Direction::Load, &at(4)).await {
                result.unwrap();
            }
            for slot in 0..4 {
                assert!(rig.read(slot) == rig.read(slot + 4), "{mode}: block {slot} of {bytes} bytes");
            }
            assert!(rig.close(PATIENCE).await < PATIENCE);
            assert_eq!(rig.engine.health(), kvtier_engine_nixl::NixlHealth::default());
        }
    }
}

/// Lookups tell present, empty and absent objects apart, one bad answer spoils no other, and a probe is content.
#[tokio::test]
async fn lookups_answer_each_key() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    server.store().insert(server.bucket(), "kv/there", "x");
    server.store().insert(server.bucket(), "kv/large", vec![1; 1 << 20]);
    server.store().insert(server.bucket(), "kv/empty", "");
    let rig = Rig::new(&config(&server, server.endpoint(), &[]), 16, 1);
    rig.engine.probe().await.unwrap();
    let answers = rig.lookup(&["kv/there", "kv/not", "kv/large", "kv/empty", "kv"]).await;
    let present = |answer: &Result<Presence, _>| answer.as_ref().unwrap().is_present();
    assert_eq!(answers.iter().map(present).collect::<Vec<_>>(), [true, false, true, true, false]);
}

/// A probe names what is wrong: the bucket, the key, the secret, the endpoint; a lookup there never says "absent".
#[tokio::test]
async fn a_probe_names_the_culprit() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let base = |more: &str| {
        let mut pairs = vec![format!("region={}", server.region())];
        for (name, value) in [
            ("bucket", server.bucket()),
            ("endpoint", server.endpoint()),
            ("access_key", server.access_key()),
            ("secret_key", server.secret_key()),
        ] {
            let replaced = more.split_once('=').filter(|(key, _)| *key == name);
            pairs.push(format!("{name}={}", replaced.map_or(value, |(_, value)| value)));
        }
        kvtier_engine_nixl::StoreConfig::from_pairs(pairs).unwrap()
    };
    for (wrong, kind, words) in [
        ("bucket=elsewhere", ErrorKind::Config, "NoSuchBucket; look at bucket"),
        ("access_key=stranger", ErrorKind::Denied, "look at access_key"),
        ("secret_key=wrong", ErrorKind::Denied, "SignatureDoesNotMatch; look at secret_key"),
        ("endpoint=http://127.0.0.1:9", ErrorKind::Unavailable, "look at endpoint_override"),
    ] {
        let mut rig = Rig::new(&base(wrong), 16, 1);
        let error = rig.engine.probe().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{wrong}: {error}");
        assert!(error.message().contains(words), "{wrong}: {error}");
        assert_eq!(rig.lookup(&["a"]).await[0].as_ref().unwrap_err().kind(), kind, "{wrong}");
        for direction in [Direction::Store, Direction::Load] {
            let result = rig.run(direction, &[("a", 0)]).await.remove(0);
            assert_eq!(result.unwrap_err().kind(), kind, "{wrong}: {direction}");
        }
    }
}

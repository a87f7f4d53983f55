use std::collections::HashMap;
use std::time::{Duration, Instant};

use kvtier_core::{Direction, ErrorKind, TransferEngine};
use kvtier_engine_nixl::NixlHealth;
use kvtier_testkit::{Fault, FaultProxy, FaultRule, S3Options, S3Server};

use crate::rig::{MODES, PATIENCE, Rig, config, pattern};

const BYTES: usize = 64 << 10;

fn hostile() -> (S3Server, FaultProxy) {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let proxy = FaultProxy::start_on_thread(server.endpoint()).unwrap();
    (server, proxy)
}

fn put(server: &S3Server, name: &str, bytes: &[u8]) {
    server.store().insert(server.bucket(), name, bytes.to_vec());
}

/// Twelve loads at once, each with another fate, good and bad: each is reported when it is over, and once it is,
/// nothing touches its slot again, also 5 s after the last one.
#[tokio::test(flavor = "multi_thread")]
async fn no_stray_bytes_after_completion() {
    for mode in MODES {
        let (server, proxy) = hostile();
        let second = Duration::from_secs(1);
        let fates: Vec<(&str, Fault, Option<ErrorKind>)> = vec![
            ("missing", Fault::refuse(404, "NoSuchKey"), Some(ErrorKind::NotFound)),
            ("cut", Fault::Cut(1000), Some(ErrorKind::Unavailable)),
            ("range", Fault::refuse(416, "InvalidRange"), Some(ErrorKind::Corrupt)),
            ("busy", Fault::refuse(503, "SlowDown"), Some(ErrorKind::Throttled)),
            ("reset", Fault::Reset, Some(ErrorKind::Unavailable)),
            ("fine", Fault::None, None),
            ("hold-1", Fault::Delay(second), None),
            ("slow-1", Fault::DelayBody(second), None),
            ("drip", Fault::Drip { bytes: BYTES / 16, pause: second / 10 }, None),
            ("slow-2", Fault::DelayBody(second * 2), None),
            ("short", Fault::Truncate(100), Some(ErrorKind::Corrupt)),
            ("stall", Fault::Stall(5000), Some(ErrorKind::Unavailable)),
        ];
        let block = pattern(1, BYTES);
        let mut rig = Rig::new(&config(&server, proxy.endpoint(), &[mode, "num_threads=12"]), BYTES, 12);
        for (name, fault, _) in &fates {
            put(&server, name, &block);
            proxy.add(FaultRule::always(*name, fault.clone()));
        }
        let blocks: Vec<_> = fates.iter().map(|(name, ..)| *name).zip(0..).collect();
        let ids = rig.start(Direction::Load, &blocks);
        // Each slot is used again as soon as it is reported.
        let mut left: HashMap<_, _> = ids.into_iter().zip(0_u32..).collect();
        while !left.is_empty() {
            tokio::time::timeout(PATIENCE, rig.queue.posted()).await.expect("a transfer got lost");
            for completion in rig.queue.take().transfers {
                let slot = left.remove(&completion.id).expect("completed twice");
                drop(completion.lease);
                let (name, _, expected) = &fates[slot as usize];
                let kind = completion.result.err().map(|error| error.kind());
                assert_eq!(kind, *expected, "{mode}: {name}");
                assert!(kind.is_some() || rig.read(slot) == block, "{mode}: {name}");
                rig.fill(slot, &vec![u8::try_from(slot).unwrap() + 1; BYTES]);
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let stray: usize = (0..12_u32)
            .map(|slot| rig.read(slot).iter().filter(|byte| u32::from(**byte) != slot + 1).count())
            .sum();
        assert_eq!(stray, 0, "{mode}");
        println!("{mode}: 12 loads, {} faults, {stray} stray bytes", proxy.injected());
        rig.close(PATIENCE).await;
    }
}

/// What a store may do to an object on its way, and what a load must say; bytes of an answer that is not the block never
/// reach the slot when staging, and with zero copy they are never called the block.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_its_verdict() {
    let refuse = Fault::refuse;
    let cases: Vec<(Fault, Option<ErrorKind>)> = vec![
        (Fault::None, None),
        (Fault::Whole(0), None),
        (Fault::CloseDelimited(BYTES), None),
        (Fault::Truncate(0), Some(ErrorKind::Corrupt)),
        (Fault::Truncate(1), Some(ErrorKind::Corrupt)),
        (Fault::Truncate(BYTES - 16), Some(ErrorKind::Corrupt)),
        (Fault::Truncate(BYTES - 1), Some(ErrorKind::Corrupt)),
        (Fault::Shift(1), Some(ErrorKind::Corrupt)),
        (Fault::Shift(1000), Some(ErrorKind::Corrupt)),
        (Fault::CloseDelimited(100), Some(ErrorKind::Corrupt)),
        (Fault::Cut(0), Some(ErrorKind::Unavailable)),
        (Fault::Cut(BYTES - 1), Some(ErrorKind::Unavailable)),
        (Fault::ChunkedCut(1000), Some(ErrorKind::Unavailable)),
        (Fault::Reset, Some(ErrorKind::Unavailable)),
        (Fault::Whole(1 << 20), Some(ErrorKind::Unavailable)),
        (refuse(500, "InternalError"), Some(ErrorKind::Unavailable)),
        (refuse(503, "SlowDown"), Some(ErrorKind::Throttled)),
        (refuse(403, "AccessDenied"), Some(ErrorKind::Denied)),
        (refuse(404, "NoSuchKey"), Some(ErrorKind::NotFound)),
        (refuse(404, "NoSuchBucket"), Some(ErrorKind::Config)),
        (refuse(416, "InvalidRange"), Some(ErrorKind::Corrupt)),
        (
            Fault::Status { status: 500, code: "InternalError", body_bytes: 4 * BYTES },
            Some(ErrorKind::Unavailable),
        ),
        (Fault::Status { status: 503, code: "", body_bytes: BYTES }, Some(ErrorKind::Unavailable)),
    ];
    // Zero copy does not see these; its capabilities say so.
    let longer = [
        (Fault::Extend(2), Some(ErrorKind::Corrupt)),
        (Fault::Extend(16), Some(ErrorKind::Corrupt)),
        (Fault::Extend(1000), Some(ErrorKind::Corrupt)),
    ];
    for mode in MODES {
        let (server, proxy) = hostile();
        let mut rig = Rig::new(&config(&server, proxy.endpoint(), &[mode]), BYTES, 1);
        let block = pattern(2, BYTES);
        put(&server, "block", &block);
        let sees_long = rig.engine.capabilities().detects_long;
        for (fault, expected) in cases.iter().chain(longer.iter().filter(|_| sees_long)) {
            proxy.clear();
            proxy.add(FaultRule::always("block", fault.clone()));
            rig.fill(0, &vec![0xAA; BYTES]);
            let result = rig.run(Direction::Load, &[("block", 0)]).await.remove(0);
            let kind = result.as_ref().err().map(kvtier_core::Error::kind);
            assert_eq!(kind, *expected, "{mode}: {fault:?}: {result:?}");
            let slot = rig.read(0);
            if result.is_ok() {
                assert!(slot == block, "{mode}: {fault:?}: wrong bytes");
            } else if rig.engine.capabilities().honours_deadline {
                assert!(
                    slot == vec![0xAA; BYTES],
                    "{mode}: {fault:?}: bytes of a failed load reached the slot"
                );
            }
        }
        rig.close(PATIENCE).await;
    }
}

/// The SDK tries once: a refusal followed by a shortened object, which its own retry would make into a full block of
/// shifted bytes, is two loads with two errors, each asked once and answered at once.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_retried_below_the_tier() {
    for mode in MODES {
        let (server, proxy) = hostile();
        put(&server, "mix", &pattern(3, BYTES));
        let refusal = Fault::Status { status: 503, code: "SlowDown", body_bytes: 1000 };
        proxy.add(FaultRule::sequence("mix", [refusal, Fault::Truncate(BYTES - 1000)]));
        let mut rig = Rig::new(&config(&server, proxy.endpoint(), &[mode]), BYTES, 1);
        let start = Instant::now();
        let first = rig.run(Direction::Load, &[("mix", 0)]).await.remove(0).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(5), "the default retries take 25 s");
        assert_eq!((first.kind(), proxy.injected()), (ErrorKind::Throttled, 1), "{mode}");
        let second = rig.run(Direction::Load, &[("mix", 0)]).await.remove(0);
        // The second load is one more request, or two where its end had to be read again.
        assert_eq!(second.is_ok(), rig.read(0) == pattern(3, BYTES), "{mode}: wrong bytes");
        rig.run(Direction::Load, &[("mix", 0)]).await.remove(0).unwrap();
        rig.close(PATIENCE).await;
    }
}

/// Stores that fail say why where the store lets it be seen, and those beside them are stored.
#[tokio::test(flavor = "multi_thread")]
async fn failed_stores_have_reasons() {
    for mode in MODES {
        let (server, proxy) = hostile();
        let both = |code| Fault::refuse(403, code);
        proxy.add(FaultRule::always("denied", both("AccessDenied")));
        proxy.add(FaultRule::always("bucket", Fault::refuse(404, "NoSuchBucket")));
        proxy.add(FaultRule::always("busy", Fault::refuse(503, "SlowDown")));
        proxy.add(FaultRule::always("write-only", both("AccessDenied")).methods(["PUT"]));
        proxy.add(FaultRule::always("reset", Fault::Reset));
        let mut rig = Rig::new(&config(&server, proxy.endpoint(), &[mode]), BYTES, 6);
        let fates = [
            ("denied", Some(ErrorKind::Denied)),
            ("bucket", Some(ErrorKind::Config)),
            ("busy", Some(ErrorKind::Throttled)),
            ("write-only", Some(ErrorKind::Unavailable)),
            ("reset", Some(ErrorKind::Unavailable)),
            ("fine", None),
        ];
        rig.fill(5, &pattern(4, BYTES));
        let blocks: Vec<_> = fates.iter().map(|(name, _)| *name).zip(0..).collect();
        for (result, (name, expected)) in rig.run(Direction::Store, &blocks).await.into_iter().zip(fates) {
            let kind = result.as_ref().err().map(kvtier_core::Error::kind);
            assert_eq!(kind, expected, "{mode}: {name}: {result:?}");
        }
        assert_eq!(server.store().get(server.bucket(), "fine").unwrap(), pattern(4, BYTES));
        assert_eq!(server.store().keys(server.bucket()), ["fine"]);
        rig.close(PATIENCE).await;
    }
}

/// A store that never answers holds neither a deadline nor a shutdown when staging: the slots are free, what was
/// left behind is counted, and it is gone when the store lets go.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_store_holds_nothing_up() {
    let (server, proxy) = hostile();
    proxy.add(FaultRule::always("stuck", Fault::Drip { bytes: 1, pause: Duration::from_millis(500) }));
    put(&server, "stuck", &pattern(5, BYTES));
    put(&server, "fine", &pattern(6, BYTES));
    let mut rig =
        Rig::new(&config(&server, proxy.endpoint(), &["num_threads=2", "request_timeout=2s"]), BYTES, 4);
    let start = Instant::now();
    let result = rig.run(Direction::Load, &[("stuck", 0)]).await.remove(0).unwrap_err();
    assert_eq!(result.kind(), ErrorKind::Timeout);
    assert!((2..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(rig.engine.health().requests_stuck, 1);
    // A second one wedges the agent, which is replaced.
    rig.run(Direction::Load, &[("stuck", 0)]).await.remove(0).unwrap_err();
    rig.run(Direction::Load, &[("fine", 1)]).await.remove(0).unwrap();
    assert_eq!(rig.read(1), pattern(6, BYTES));
    let NixlHealth { agents_replaced, requests_stuck, .. } = rig.engine.health();
    assert_eq!((agents_replaced, requests_stuck), (1, 0));

    rig.start(Direction::Load, &[("stuck", 2)]);
    let took = rig.close(Duration::from_secs(1)).await;
    assert!(took < Duration::from_secs(3), "a shutdown of 1 s took {took:?}");
    let left = rig.collect(1).await.into_values().next().unwrap();
    assert_eq!(left.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!((rig.memory.leased_slots(), rig.memory.quarantined_slots()), (0, 0));
    let late = rig.run(Direction::Load, &[("fine", 3)]).await.remove(0).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Closed);
    drop(proxy);
    let patience = Instant::now() + PATIENCE;
    while rig.engine.health().agents_ending > 0 {
        assert!(Instant::now() < patience, "the replaced agent did not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Without staging the same shutdown returns at its deadline, and the block is reported when its request is over.
#[tokio::test(flavor = "multi_thread")]
async fn zero_copy_waits_for_its_blocks() {
    let (server, proxy) = hostile();
    proxy.add(FaultRule::always("slow", Fault::DelayBody(Duration::from_secs(2))));
    put(&server, "slow", &pattern(7, BYTES));
    let mut rig = Rig::new(&config(&server, proxy.endpoint(), &["zero_copy=true"]), BYTES, 1);
    rig.start(Direction::Load, &[("slow", 0)]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let took = rig.close(Duration::from_millis(300)).await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(rig.memory.leased_slots(), 1, "a block in flight keeps its slot");
    rig.collect(1).await.into_values().next().unwrap().unwrap();
    assert_eq!(rig.read(0), pattern(7, BYTES));
    rig.close(PATIENCE).await;
}

/// Lookups under faults: an error is never an absent object, and one bad key spoils no other.
#[tokio::test(flavor = "multi_thread")]
async fn lookups_never_call_an_error_absent() {
    let (server, proxy) = hostile();
    put(&server, "there", &[1; 10_000]);
    for (name, fault) in [
        ("denied", Fault::refuse(403, "AccessDenied")),
        ("bucket", Fault::refuse(404, "NoSuchBucket")),
        ("broken", Fault::refuse(500, "InternalError")),
        ("bare", Fault::Status { status: 404, code: "", body_bytes: 0 }),
        ("reset", Fault::Reset),
    ] {
        proxy.add(FaultRule::always(name, fault));
    }
    let rig = Rig::new(&config(&server, proxy.endpoint(), &[]), BYTES, 1);
    let names = ["denied", "there", "bucket", "absent", "broken", "bare", "reset"];
    let answers = rig.lookup(&names).await;
    let seen: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map_err(kvtier_core::Error::kind).copied()).collect();
    assert!(seen[1].unwrap().is_present() && !seen[3].unwrap().is_present());
    for (at, kind) in [
        (0, ErrorKind::Denied),
        (2, ErrorKind::Config),
        (4, ErrorKind::Unavailable),
        (5, ErrorKind::Unavailable),
        (6, ErrorKind::Unavailable),
    ] {
        assert_eq!(seen[at].unwrap_err(), kind, "{}", names[at]);
    }
    let lenient = Rig::new(&config(&server, proxy.endpoint(), &["lookup_403_is_absent=true"]), BYTES, 1);
    assert!(!lenient.lookup(&["denied"]).await[0].as_ref().unwrap().is_present());
}

//! Lookups: many at once, within bounds, each answered by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kvtier_core::{ErrorKind, Presence, Probe, ProbeId, TransferEngine};
use kvtier_engine_object_store::ConfigKey;
use tokio::sync::{Barrier, Semaphore};

use crate::bench::{Bench, key};
use crate::peer::{Peer, response};

/// Sizes, absences and failures in one call: each name gets its own answer, and an error is not an absence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_name_gets_its_own_answer() {
    let peer = Peer::start(|mut request| async move {
        let name = request.head.split([' ', '/']).nth(3).unwrap().to_owned();
        let answer = match name.as_str() {
            "here" => response("200 OK", 4096, b""),
            "gone" => response("404 Not Found", 0, b""),
            "denied" => response("403 Forbidden", 0, b""),
            "busy" => response("503 Service Unavailable", 0, b""),
            "slow" => response("429 Too Many Requests", 0, b""),
            _ => Vec::new(),
        };
        request.send(&answer).await;
    })
    .await;
    let bench = Bench::against(&peer.endpoint, &[], 4096);
    let names = ["here", "gone", "denied", "busy", "slow", "cut", "here"];
    let answers = bench.lookup(&names).await;
    let present = Presence::Present { size_bytes: Some(4096) };
    assert_eq!(answers[0].as_ref().unwrap(), &present);
    assert_eq!(answers[1].as_ref().unwrap(), &Presence::Absent);
    assert_eq!(answers[6].as_ref().unwrap(), &present);
    let kinds: Vec<_> = answers[2..6].iter().map(|answer| answer.as_ref().unwrap_err().kind()).collect();
    assert_eq!(
        kinds,
        [ErrorKind::Denied, ErrorKind::Unavailable, ErrorKind::Throttled, ErrorKind::Unavailable]
    );
    assert_eq!(peer.requests(), names.len(), "one request per name");
}

/// With the option, 403 is an absence; nothing else becomes one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_403_is_absent_only_on_request() {
    for (status, is_absent) in [("403 Forbidden", true), ("500 Internal Server Error", false)] {
        let peer = Peer::answering(response(status, 0, b"")).await;
        let bench = Bench::against(&peer.endpoint, &[(ConfigKey::Lookup403IsAbsent, "true")], 4096);
        let answer = bench.lookup(&["a"]).await.pop().unwrap();
        assert_eq!(matches!(answer, Ok(Presence::Absent)), is_absent, "{status}: {answer:?}");
    }
}

/// As many HEADs run side by side as configured, and never more, over several calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_are_concurrent_and_bounded() {
    const AT_ONCE: usize = 5;
    let barrier = Arc::new(Barrier::new(AT_ONCE));
    let (open, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peer = Peer::start({
        let peak = Arc::clone(&peak);
        move |mut request| {
            let (barrier, open, peak) = (Arc::clone(&barrier), Arc::clone(&open), Arc::clone(&peak));
            async move {
                peak.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Passes only when AT_ONCE requests are here together.
                barrier.wait().await;
                open.fetch_sub(1, Ordering::SeqCst);
                request.send(&response("200 OK", 4096, b"")).await;
            }
        }
    })
    .await;
    let bench = Bench::against(&peer.endpoint, &[(ConfigKey::LookupConcurrency, "5")], 4096);
    assert_eq!(bench.engine.capabilities().probes_in_flight_max, 5);
    let names: Vec<_> = (0..4 * AT_ONCE).map(|number| format!("n{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let probe = |number: u64, name: &str| Probe::new(ProbeId(1000 + number), key(name), &bench.queue);
    bench.engine.lookup((0..).zip(&names[..2 * AT_ONCE]).map(|(number, name)| probe(number, name)).collect());
    let mut answered = 0;
    bench
        .engine
        .lookup((100..).zip(&names[2 * AT_ONCE..]).map(|(number, name)| probe(number, name)).collect());
    while answered < names.len() {
        answered += bench.queue.take().answers.into_iter().filter(|answer| answer.result.is_ok()).count();
        if answered < names.len() {
            bench.queue.posted().await;
        }
    }
    assert_eq!(peak.load(Ordering::SeqCst), AT_ONCE);
}

/// A name whose answer does not come holds up no other name of the same call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_answer_holds_up_no_other() {
    let gate = Arc::new(Semaphore::new(0));
    let peer = Peer::start({
        let gate = Arc::clone(&gate);
        move |mut request| {
            let gate = Arc::clone(&gate);
            async move {
                if request.head.contains("/slow ") {
                    let _pass = gate.acquire().await.unwrap();
                }
                request.send(&response("200 OK", 1, b"")).await;
            }
        }
    })
    .await;
    let bench = Bench::against(&peer.endpoint, &[], 4096);
    let probes =
        [(1, "slow"), (2, "fast")].map(|(number, name)| Probe::new(ProbeId(number), key(name), &bench.queue));
    bench.engine.lookup(probes.into());
    bench.queue.posted().await;
    let first = bench.queue.take().answers;
    assert_eq!(first.iter().map(|answer| answer.id.0).collect::<Vec<_>>(), [2]);
    gate.add_permits(1);
    bench.queue.posted().await;
    assert_eq!(bench.queue.take().answers.len(), 1);
}

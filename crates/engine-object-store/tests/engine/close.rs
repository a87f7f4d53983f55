//! Ends: intake stops, what is in flight is waited for and then given up, and a dead runtime answers.

use std::sync::Arc;
use std::time::Duration;

use kvtier_core::{Access, Direction, ErrorKind, Probe, ProbeId, TransferEngine};
use kvtier_engine_object_store::{ConfigKey, ObjectStoreEngine, StoreConfig};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;

use crate::bench::{Bench, engine, key, now};
use crate::peer::{Peer, response};

const BLOCK: usize = 4096;
const HOUR: Duration = Duration::from_hours(1);

/// A peer that answers when the gate has a permit for it.
async fn gated() -> (Peer, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let pass = Arc::clone(&gate);
    let peer = Peer::start(move |mut request| {
        let pass = Arc::clone(&pass);
        async move {
            pass.acquire().await.unwrap().forget();
            request.send(&response("200 OK", BLOCK, &[7; BLOCK])).await;
        }
    });
    (peer.await, gate)
}

/// Close waits for what was accepted, however long, as long as its deadline lets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_waits_for_what_is_in_flight() {
    let (peer, gate) = gated().await;
    let bench = Bench::against(&peer.endpoint, &[], BLOCK);
    bench.engine.submit(vec![bench.transfer(Direction::Load, "a", 0)]);
    let mut close = bench.engine.close(now() + HOUR);
    // Intake stops when `close` is called, before its end.
    assert!(futures_util::poll!(&mut close).is_pending());
    bench.engine.submit(vec![bench.transfer(Direction::Load, "b", 1)]);
    assert_eq!(bench.completion().await.result.unwrap_err().kind(), ErrorKind::Closed);
    gate.add_permits(1);
    close.await;
    bench.completion().await.result.unwrap();
    assert_eq!(peer.requests(), 1);
}

/// At close's deadline everything left, queued lookups included, completes as timed out, and slots are free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_gives_up_at_its_deadline() {
    let (peer, _gate) = gated().await;
    let options = [(ConfigKey::LookupConcurrency, "1"), (ConfigKey::RequestTimeout, "3600")];
    let bench = Bench::against(&peer.endpoint, &options, BLOCK);
    let batch = [(Direction::Load, 0), (Direction::Store, 1), (Direction::Load, 2)];
    bench.engine.submit(batch.map(|(direction, slot)| bench.transfer(direction, "a", slot)).into());
    bench.engine.lookup((0..3).map(|number| Probe::new(ProbeId(number), key("a"), &bench.queue)).collect());
    bench.engine.close(now() + Duration::from_millis(100)).await;
    let posted = bench.queue.take();
    assert_eq!((posted.transfers.len(), posted.answers.len()), (3, 3));
    for result in posted.transfers.iter().map(|done| &done.result) {
        assert_eq!(result.as_ref().unwrap_err().kind(), ErrorKind::Timeout);
    }
    for answer in &posted.answers {
        assert_eq!(answer.result.as_ref().unwrap_err().kind(), ErrorKind::Timeout);
    }
    drop(posted);
    assert_eq!(bench.memory.leased_slots(), 0);
}

/// After close everything is refused as closed, and close may be called again, in any number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_engine_refuses_and_closes_again() {
    let engine = ObjectStoreEngine::memory(&StoreConfig::default(), Handle::current()).unwrap();
    let bench = Bench::new(engine, BLOCK, 4);
    bench.store("a").await.unwrap();
    bench.engine.close(now() + HOUR).await;
    tokio::join!(bench.engine.close(now() + HOUR), bench.engine.close(now()));
    assert_eq!(bench.load("a").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(bench.store("a").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(bench.lookup(&["a"]).await.pop().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(bench.engine.probe().await.unwrap_err().kind(), ErrorKind::Closed);
}

/// When the engine's runtime ends, everything in flight and everything later is closed, and nothing waits for ever;
/// the caller's own runtime does not matter.
#[test]
fn a_dead_runtime_answers_closed() {
    let peers = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (peer, _gate) = peers.block_on(gated());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bench = runtime.block_on(async { Bench::new(engine(&peer.endpoint, &[]), BLOCK, 4) });
    bench.engine.submit(vec![bench.transfer(Direction::Load, "a", 0)]);
    bench.engine.lookup(vec![Probe::new(ProbeId(1), key("a"), &bench.queue)]);
    drop(runtime);
    let caller = Builder::new_current_thread().build().unwrap();
    caller.block_on(async {
        let posted = bench.queue.take();
        assert_eq!(posted.transfers[0].result.as_ref().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(posted.answers[0].result.as_ref().unwrap_err().kind(), ErrorKind::Closed);
        drop(posted);
        assert!(bench.memory.lease(0, Access::Write).is_ok());
        assert_eq!(bench.load("a").await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(bench.lookup(&["a"]).await.pop().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(bench.engine.probe().await.unwrap_err().kind(), ErrorKind::Closed);
        bench.engine.close(now() + HOUR).await;
    });
}

/// The async calls work on a thread without any runtime: what they wait for runs on the engine's.
#[test]
fn async_calls_need_no_runtime_of_the_caller() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let engine = ObjectStoreEngine::memory(&StoreConfig::default(), runtime.handle().clone()).unwrap();
    let caller = Builder::new_current_thread().build().unwrap();
    caller.block_on(engine.probe()).unwrap();
    caller.block_on(engine.close(now()));
}

/// A current-thread runtime is refused: its caller could starve the engine for ever.
#[tokio::test]
async fn a_current_thread_runtime_is_refused() {
    let error = ObjectStoreEngine::memory(&StoreConfig::default(), Handle::current()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("multi-thread"), "{error}");
}

//! Negative controls: an engine with one planted defect at a time, each of which fails at least one case by name, and
//! the same engine without a defect, which passes them all.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kvtier_conformance::{BackDoor, CaseOutcome, Fault, FaultControl, Fixture, Report, Suite, SuiteOptions};
use kvtier_core::{
    Access, Capabilities, CompletionQueue, Direction, Error, ErrorKind, HostMemory, ObjectKey, Presence,
    Probe, Transfer, TransferEngine,
};
use parking_lot::Mutex;
use tokio::time::{sleep, sleep_until};

/// What is wrong with the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// A store is complete before the object is there.
    EarlyStore,
    /// A load is complete before the block is there: it is written when somebody else may have the slot.
    StrayWrite,
    /// A second completion under the same number.
    DoubleCompletion,
    /// A transfer that never ends.
    LostTransfer,
    /// Half an object is taken for a block.
    ShortLoad,
    /// An object that is too long is taken for a block.
    LongLoad,
    /// Blocks of one batch change places.
    SwappedKeys,
    /// A lookup that fails says "absent".
    ErrorAsAbsent,
    /// One bad block fails its whole batch.
    BatchFate,
    /// The engine tries again by itself.
    Retries,
    /// Works on after a close.
    DeafToClose,
    /// Returns from a close with work in flight.
    HastyClose,
    /// Names that differ in case alone are one object.
    FoldsNames,
    /// Every failure has the same kind.
    OneKind,
    /// Does not give up at the deadline.
    NoDeadline,
}

#[derive(Debug, Default)]
struct Store {
    objects: Mutex<HashMap<ObjectKey, Vec<u8>>>,
    faults: Mutex<HashMap<ObjectKey, (Fault, bool)>>,
}

impl Store {
    fn fault(&self, key: &ObjectKey) -> Option<Fault> {
        let mut faults = self.faults.lock();
        let (fault, once) = *faults.get(key)?;
        if once {
            faults.remove(key);
        }
        Some(fault)
    }
}

/// The case's memory and queue, for defects that an engine cannot have by itself.
type Watched = Arc<Mutex<Option<(Arc<HostMemory>, Arc<CompletionQueue>)>>>;

#[derive(Debug)]
struct Rogue {
    defect: Defect,
    store: Arc<Store>,
    watched: Watched,
    capabilities: Capabilities,
    is_closed: AtomicBool,
    /// One for each transfer in flight.
    running: Arc<()>,
    stop: tokio::sync::watch::Sender<bool>,
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "closed")
}

impl Rogue {
    fn name(&self, key: &ObjectKey) -> ObjectKey {
        if self.defect == Defect::FoldsNames {
            return ObjectKey::new(key.as_str().to_lowercase()).unwrap();
        }
        key.clone()
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) && self.defect != Defect::DeafToClose
    }
}

fn refusal(fault: Fault, defect: Defect) -> Error {
    let kind = match fault {
        _ if defect == Defect::OneKind => ErrorKind::Unavailable,
        Fault::Throttled => ErrorKind::Throttled,
        Fault::Denied => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "refused")
}

/// What one request to the store brings.
async fn ask(store: &Store, defect: Defect, key: &ObjectKey) -> Result<(), Error> {
    for attempt in 0.. {
        match store.fault(key) {
            None => break,
            Some(Fault::Stalled) => std::future::pending().await,
            Some(_) if defect == Defect::Retries && attempt == 0 => {}
            Some(fault) => return Err(refusal(fault, defect)),
        }
    }
    Ok(())
}

fn perform(store: &Store, defect: Defect, key: &ObjectKey, transfer: &mut Transfer) -> Result<(), Error> {
    if transfer.direction() == Direction::Store {
        let bytes = transfer.to_vec();
        store.objects.lock().insert(key.clone(), bytes);
        return Ok(());
    }
    let object = store.objects.lock().get(key).cloned();
    let kind = if defect == Defect::OneKind { ErrorKind::Unavailable } else { ErrorKind::NotFound };
    let mut object = object.ok_or_else(|| Error::new(kind, "no such object"))?;
    let block_bytes = transfer.block_bytes();
    if defect == Defect::LongLoad {
        object.truncate(block_bytes);
    }
    if object.len() != block_bytes && !(defect == Defect::ShortLoad && object.len() < block_bytes) {
        return Err(Error::new(ErrorKind::Corrupt, "not one block"));
    }
    transfer.copy_in(0, &object);
    Ok(())
}

#[async_trait]
impl TransferEngine for Rogue {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn probe(&self) -> Result<(), Error> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    fn lookup(&self, probes: Vec<Probe>) {
        for probe in probes {
            if self.is_closed() {
                probe.answer(Err(closed()));
                continue;
            }
            let (store, defect, key) = (Arc::clone(&self.store), self.defect, self.name(probe.key()));
            tokio::spawn(async move {
                let size =
                    ask(&store, defect, &key).await.map(|()| store.objects.lock().get(&key).map(Vec::len));
                let presence = |size: Option<usize>| {
                    size.map_or(Presence::Absent, |size| Presence::Present { size_bytes: Some(size as u64) })
                };
                probe.answer(match size {
                    Err(_) if defect == Defect::ErrorAsAbsent => Ok(Presence::Absent),
                    size => size.map(presence),
                });
            });
        }
    }

    fn submit(&self, batch: Vec<Transfer>) {
        let mut keys: Vec<_> = batch.iter().map(|transfer| self.name(transfer.key())).collect();
        if self.defect == Defect::SwappedKeys && keys.len() > 1 {
            keys.swap(0, 1);
        }
        let is_bad = |transfer: &Transfer| {
            transfer.direction() == Direction::Load && !self.store.objects.lock().contains_key(transfer.key())
        };
        let is_spoilt = self.defect == Defect::BatchFate && batch.iter().any(is_bad);
        for (mut transfer, key) in batch.into_iter().zip(keys) {
            if self.is_closed() || is_spoilt {
                transfer.complete(Err(closed()));
                continue;
            }
            let (store, defect) = (Arc::clone(&self.store), self.defect);
            let (watched, running) = (self.watched.lock().clone(), Arc::clone(&self.running));
            let mut stop = self.stop.subscribe();
            tokio::spawn(async move {
                // Held until the end.
                let running = running;
                let (id, direction) = (transfer.id(), transfer.direction());
                match defect {
                    Defect::LostTransfer if id.0.is_multiple_of(3) => return std::mem::forget(transfer),
                    Defect::EarlyStore if direction == Direction::Store => {
                        let bytes = transfer.to_vec();
                        transfer.complete(Ok(()));
                        sleep(Duration::from_millis(50)).await;
                        store.objects.lock().insert(key, bytes);
                        return;
                    }
                    Defect::HastyClose => sleep(Duration::from_millis(50)).await,
                    _ => {}
                }
                let deadline = transfer.deadline().filter(|_| defect != Defect::NoDeadline);
                let late = async {
                    let stopped = stop.wait_for(|stopped| *stopped);
                    match deadline {
                        Some(deadline) => {
                            tokio::select! { () = sleep_until(deadline.into()) => {}, _ = stopped => {} }
                        }
                        None => drop(stopped.await),
                    }
                };
                let result = tokio::select! {
                    () = late => Err(Error::new(ErrorKind::Timeout, "late")),
                    result = ask(&store, defect, &key) => result,
                };
                let result = match result {
                    Ok(()) => perform(&store, defect, &key, &mut transfer),
                    Err(error) => Err(error),
                };
                transfer.complete(result);
                let Some((memory, queue)) = watched else { return drop(running) };
                match defect {
                    Defect::DoubleCompletion => {
                        let own = HostMemory::allocate(1, 1).unwrap();
                        let lease = own.lease(0, direction.access()).unwrap();
                        Transfer::new(id, direction, key, lease, &queue).complete(Ok(()));
                    }
                    Defect::StrayWrite if direction == Direction::Load => {
                        sleep(Duration::from_millis(50)).await;
                        for slot in 0..memory.slots() {
                            if let Ok(mut lease) = memory.lease(slot, Access::Write) {
                                lease.copy_in(0, &[0xEE]);
                            }
                        }
                    }
                    _ => {}
                }
                drop(running);
            });
        }
    }

    async fn close(&self, deadline: Instant) {
        self.is_closed.store(true, Ordering::Release);
        if self.defect == Defect::HastyClose {
            return;
        }
        let is_idle = || Arc::strong_count(&self.running) == 1;
        while !is_idle() && tokio::time::Instant::now() < deadline.into() {
            sleep(Duration::from_millis(1)).await;
        }
        self.stop.send_replace(true);
        for _ in 0..100 {
            if is_idle() {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}

#[derive(Debug)]
struct RogueFixture {
    defect: Defect,
    store: Arc<Store>,
    watched: Watched,
}

#[async_trait]
impl Fixture for RogueFixture {
    async fn open(&self) -> Result<Box<dyn TransferEngine>, Error> {
        Ok(Box::new(Rogue {
            defect: self.defect,
            store: Arc::clone(&self.store),
            watched: Arc::clone(&self.watched),
            capabilities: Capabilities::new("rogue"),
            is_closed: AtomicBool::new(false),
            running: Arc::default(),
            stop: tokio::sync::watch::Sender::new(false),
        }))
    }

    fn back_door(&self) -> &dyn BackDoor {
        self.store.as_ref()
    }

    fn faults(&self) -> Option<&dyn FaultControl> {
        Some(self.store.as_ref())
    }

    fn watch(&self, memory: &Arc<HostMemory>, queue: &Arc<CompletionQueue>) {
        *self.watched.lock() = Some((Arc::clone(memory), Arc::clone(queue)));
    }
}

#[async_trait]
impl BackDoor for Store {
    async fn put(&self, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), Error> {
        self.objects.lock().insert(key.clone(), bytes);
        Ok(())
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.objects.lock().get(key).cloned())
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), Error> {
        self.objects.lock().remove(key);
        Ok(())
    }
}

#[async_trait]
impl FaultControl for Store {
    async fn inject(&self, key: &ObjectKey, fault: Fault, once: bool) {
        self.faults.lock().insert(key.clone(), (fault, once));
    }

    async fn clear(&self) {
        self.faults.lock().clear();
    }
}

async fn run(defect: Defect) -> Report {
    let mut options = SuiteOptions::default();
    // A transfer that is lost costs every case its patience twice.
    options.patience = Duration::from_millis(if defect == Defect::None { 30_000 } else { 700 });
    options.watch = Duration::from_millis(120);
    options.batch_max = 64;
    options.block_bytes_max = 70_000;
    let fixture = RogueFixture { defect, store: Arc::default(), watched: Arc::default() };
    Suite::new(options).run(&fixture).await
}

/// Without a defect every case applies and passes, and nothing is left in the store.
#[tokio::test(flavor = "multi_thread")]
async fn an_honest_engine_passes_everything() {
    let report = run(Defect::None).await;
    println!("{report}");
    assert_eq!((report.failed(), report.not_applicable()), (0, 0), "{report}");
}

/// Each defect fails the case that is there for it; the list says which cases saw which defect.
#[tokio::test(flavor = "multi_thread")]
async fn each_planted_defect_is_caught() {
    let expected = [
        (Defect::EarlyStore, "ownership/none_early"),
        (Defect::StrayWrite, "ownership/no_access_after_completion"),
        (Defect::DoubleCompletion, "ownership/exactly_one_completion"),
        (Defect::LostTransfer, "ownership/exactly_one_completion"),
        (Defect::ShortLoad, "failure/short"),
        (Defect::LongLoad, "failure/long"),
        (Defect::SwappedKeys, "failure/one_bad_among_many"),
        (Defect::ErrorAsAbsent, "lookup/errors_are_not_absence"),
        (Defect::BatchFate, "failure/one_bad_among_many"),
        (Defect::Retries, "failure/no_retries"),
        (Defect::DeafToClose, "lifecycle/close"),
        (Defect::HastyClose, "lifecycle/close_with_work"),
        (Defect::FoldsNames, "names/each_is_its_own_object"),
        (Defect::OneKind, "failure/kinds"),
        (Defect::NoDeadline, "failure/deadline"),
    ];
    // Side by side: they mostly wait.
    let runs = expected.map(|(defect, case)| (defect, case, tokio::spawn(run(defect))));
    for (defect, case, run) in runs {
        let report = run.await.unwrap();
        let is_failed = |outcome: &CaseOutcome| matches!(outcome, CaseOutcome::Failed(_));
        let failed = report.cases.iter().filter(|case| is_failed(&case.outcome));
        let caught: Vec<_> = failed.map(|case| case.name).collect();
        println!("{defect:?} is caught by {}", caught.join(", "));
        assert!(caught.contains(&case), "{defect:?} was not caught by {case}:\n{report}");
    }
}

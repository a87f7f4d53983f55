use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::mem;
use std::time::Instant;

use async_trait::async_trait;
use kvtier_core::{
    Capabilities, Direction, Error, ErrorKind, ObjectKey, Presence, Probe, Transfer, TransferEngine,
    TransferId,
};
use tokio::sync::watch;
use tokio::time::timeout_at;

use crate::{MockStore, ProbeEnd, TransferEnd};

/// Transfers, and probes, in flight unless a test asks for another number.
const IN_FLIGHT_MAX: u32 = 64;

/// A transfer that the engine holds, as far as a test sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTransfer {
    /// The transfer's number, by which it is [completed](MockEngine::complete).
    pub id: TransferId,
    /// Which way the block moves.
    pub direction: Direction,
    /// The object's name.
    pub key: ObjectKey,
    /// When the caller stops being interested. The engine has no clock of its own: a driver that
    /// plays the clock fails the transfer with [`Timeout`](ErrorKind::Timeout).
    pub deadline: Option<Instant>,
}

/// The engine. How it is built decides when transfers and probes end; see the [crate's page](crate).
///
/// Every method works from any thread, through `&self`: give the tier an `Arc<MockEngine>` and keep a clone.
/// No lock is held while a transfer completes or a probe is answered. Dropped, the engine drops what it
/// holds, which then completes with [`Closed`](ErrorKind::Closed).
#[derive(Debug)]
pub struct MockEngine {
    capabilities: Capabilities,
    mode: Mode,
    store: MockStore,
    /// In a watch channel, so that a change wakes whoever waits for one.
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Manual,
    Immediate,
    Discard,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Held, in the order they came.
    pub(crate) transfers: VecDeque<Transfer>,
    /// Held, in the order they came.
    pub(crate) probes: VecDeque<Probe>,
    /// Taken out, but not complete yet: what `close` must still wait for.
    ending: usize,
    closed: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.transfers.is_empty() && self.probes.is_empty() && self.ending == 0
    }
}

impl MockEngine {
    /// An engine that holds every transfer and probe until it is told what becomes of it.
    pub fn manual(store: &MockStore) -> Self {
        Self::new(store, Mode::Manual)
    }

    /// An engine that performs every transfer and answers every probe before `submit` and `lookup` return.
    pub fn immediate(store: &MockStore) -> Self {
        Self::new(store, Mode::Immediate)
    }

    /// Like [`immediate`](Self::immediate), but a transfer succeeds without moving a byte: the store stays as it is,
    /// and a loaded slot holds what it held. Breaks the engine contract on purpose, to measure bookkeeping alone.
    pub fn discard(store: &MockStore) -> Self {
        Self::new(store, Mode::Discard)
    }

    fn new(store: &MockStore, mode: Mode) -> Self {
        let mut capabilities = Capabilities::new("mock");
        capabilities.transfers_in_flight_max = IN_FLIGHT_MAX;
        capabilities.probes_in_flight_max = IN_FLIGHT_MAX;
        capabilities.keeps_metadata = false;
        Self { capabilities, mode, store: store.clone(), state: watch::Sender::default() }
    }

    /// The same engine with other capabilities. What it claims not to see or do, it does not:
    /// without `detects_short` or `detects_long` a load of such an object is `Ok` with as many bytes as fit,
    /// without `reports_size` probes tell no size, without `honours_deadline` `close` leaves what is held.
    #[must_use]
    pub fn with_capabilities(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// The store behind this engine.
    pub fn store(&self) -> &MockStore {
        &self.store
    }

    /// The held transfers, in the order they were submitted.
    pub fn pending_transfers(&self) -> Vec<PendingTransfer> {
        let pending = |transfer: &Transfer| PendingTransfer {
            id: transfer.id(),
            direction: transfer.direction(),
            key: transfer.key().clone(),
            deadline: transfer.deadline(),
        };
        self.state.borrow().transfers.iter().map(pending).collect()
    }

    /// The keys of the held probes, in the order they were asked.
    pub fn pending_probes(&self) -> Vec<ObjectKey> {
        self.state.borrow().probes.iter().map(|probe| probe.key().clone()).collect()
    }

    /// Waits until the engine holds at least `count` transfers.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait_for_transfers(&self, count: usize) {
        self.wait_until(|state| state.transfers.len() >= count).await;
    }

    /// Waits until the engine holds at least `count` probes.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait_for_probes(&self, count: usize) {
        self.wait_until(|state| state.probes.len() >= count).await;
    }

    async fn wait_until(&self, holds: impl FnMut(&State) -> bool) {
        // The channel cannot close while `self`, its sender, is borrowed.
        let _ = self.state.subscribe().wait_for(holds).await;
    }

    /// Ends the held transfer `id`.
    ///
    /// # Panics
    /// If the engine does not hold it.
    #[track_caller]
    pub fn complete(&self, id: TransferId, end: TransferEnd) {
        let take = |state: &mut State| {
            let index = state.transfers.iter().position(|transfer| transfer.id() == id)?;
            Some((state.transfers.remove(index)?, end))
        };
        let ended = self.end(take, |(transfer, end)| self.end_transfer(transfer, end));
        assert_eq!(ended, 1, "the engine does not hold {id:?}");
    }

    /// Performs the transfer held longest and tells its number; `None` if there is none.
    pub fn complete_next(&self) -> Option<TransferId> {
        let mut id = None;
        self.end(
            |state| state.transfers.pop_front(),
            |transfer| {
                id = Some(transfer.id());
                self.end_transfer(transfer, TransferEnd::Perform);
            },
        );
        id
    }

    /// Performs these held transfers, in this order.
    ///
    /// # Panics
    /// If the engine does not hold one of them; those before it are complete then.
    #[track_caller]
    pub fn complete_in_order(&self, ids: &[TransferId]) {
        for id in ids {
            self.complete(*id, TransferEnd::Perform);
        }
    }

    /// Performs every transfer held now, in the order they were submitted, and tells how many there were.
    /// What is submitted meanwhile stays.
    pub fn complete_all(&self) -> usize {
        let take = |state: &mut State| mem::take(&mut state.transfers);
        self.end(take, |transfer| self.end_transfer(transfer, TransferEnd::Perform))
    }

    /// Ends the held probe of `key`; if there are several, the one held longest.
    ///
    /// # Panics
    /// If the engine holds none.
    #[track_caller]
    pub fn answer(&self, key: &ObjectKey, end: ProbeEnd) {
        let take = |state: &mut State| {
            let index = state.probes.iter().position(|probe| probe.key() == key)?;
            Some((state.probes.remove(index)?, end))
        };
        let ended = self.end(take, |(probe, end)| self.end_probe(probe, end));
        assert_eq!(ended, 1, "the engine holds no probe of {key}");
    }

    /// Answers every probe held now, in the order they were asked, with what the store says, and tells how
    /// many there were. What is asked meanwhile stays.
    pub fn answer_all(&self) -> usize {
        let take = |state: &mut State| mem::take(&mut state.probes);
        self.end(take, |probe| self.end_probe(probe, ProbeEnd::Perform))
    }

    /// Changes the state and wakes whoever waits for a change. Waking nobody would cost 100 ns per change; and who
    /// starts to wait later looks at the state first.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_if_modified(|state| {
            change(state);
            self.state.receiver_count() > 0
        });
    }

    /// Takes tokens out under the lock, ends each without the lock, and tells how many there were.
    pub(crate) fn end<I>(&self, take: impl FnOnce(&mut State) -> I, each: impl FnMut(I::Item)) -> usize
    where
        I: IntoIterator<IntoIter: ExactSizeIterator>,
    {
        let mut taken = None;
        self.change(|state| {
            let tokens = take(state).into_iter();
            state.ending += tokens.len();
            taken = Some(tokens);
        });
        let Some(tokens) = taken else { return 0 };
        let count = tokens.len();
        tokens.for_each(each);
        self.change(|state| state.ending -= count);
        count
    }

    pub(crate) fn end_transfer(&self, mut transfer: Transfer, end: TransferEnd) {
        match end {
            TransferEnd::Perform => {
                let result = self.perform(&mut transfer);
                transfer.complete(result);
            }
            TransferEnd::Fail(error) => transfer.complete(Err(error)),
            TransferEnd::Drop => drop(transfer),
            TransferEnd::DropExposed => {
                transfer.expose();
                drop(transfer);
            }
        }
    }

    pub(crate) fn end_probe(&self, probe: Probe, end: ProbeEnd) {
        match end {
            ProbeEnd::Perform => {
                let presence = match self.store.get(probe.key()) {
                    Some(object) => Presence::Present { size_bytes: self.visible_size(object.len()) },
                    None => Presence::Absent,
                };
                probe.answer(Ok(presence));
            }
            ProbeEnd::Fail(error) => probe.answer(Err(error)),
            ProbeEnd::Drop => drop(probe),
        }
    }

    fn visible_size(&self, bytes: usize) -> Option<u64> {
        self.capabilities.reports_size.then(|| u64::try_from(bytes).ok()).flatten()
    }

    fn perform(&self, transfer: &mut Transfer) -> Result<(), Error> {
        if self.mode == Mode::Discard {
            return Ok(());
        }
        match transfer.direction() {
            Direction::Store => {
                self.store.insert(transfer.key().clone(), transfer.to_vec());
                Ok(())
            }
            Direction::Load => self.load(transfer),
        }
    }

    fn load(&self, transfer: &mut Transfer) -> Result<(), Error> {
        let key = transfer.key();
        let Some(object) = self.store.get(key) else {
            return Err(Error::new(ErrorKind::NotFound, format!("{key} is not in the mock store")));
        };
        let (object_bytes, block_bytes) = (object.len(), transfer.block_bytes());
        // Before the length is judged, as an engine does that streams: a failed load leaves a changed slot.
        transfer.copy_in(0, &object[..object_bytes.min(block_bytes)]);
        let seen = match object_bytes.cmp(&block_bytes) {
            Ordering::Less => self.capabilities.detects_short,
            Ordering::Equal => false,
            Ordering::Greater => self.capabilities.detects_long,
        };
        if seen {
            let key = transfer.key();
            let message = format!("{key} has {object_bytes} bytes, the block {block_bytes}");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(())
    }

    /// Holds a batch, performs it at once, or refuses it, as mode and intake say.
    fn admit<T>(
        &self,
        batch: Vec<T>,
        held: impl FnOnce(&mut State) -> &mut VecDeque<T>,
        perform: impl Fn(T),
        refuse: impl Fn(T, Error),
    ) {
        let closed = Cell::new(false);
        let take = |state: &mut State| {
            closed.set(state.closed);
            if state.closed || self.mode != Mode::Manual {
                return batch;
            }
            held(state).extend(batch);
            Vec::new()
        };
        let each = |token| if closed.get() { refuse(token, closed_error()) } else { perform(token) };
        self.end(take, each);
    }
}

fn closed_error() -> Error {
    Error::new(ErrorKind::Closed, "the mock engine is closed")
}

#[async_trait]
impl TransferEngine for MockEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn probe(&self) -> Result<(), Error> {
        if self.state.borrow().closed { Err(closed_error()) } else { Ok(()) }
    }

    fn lookup(&self, probes: Vec<Probe>) {
        self.admit(
            probes,
            |state| &mut state.probes,
            |probe| self.end_probe(probe, ProbeEnd::Perform),
            |probe, error| probe.answer(Err(error)),
        );
    }

    fn submit(&self, batch: Vec<Transfer>) {
        self.admit(
            batch,
            |state| &mut state.transfers,
            |transfer| self.end_transfer(transfer, TransferEnd::Perform),
            |transfer, error| transfer.complete(Err(error)),
        );
    }

    /// As the trait says; what is held waits for the test until the deadline.
    ///
    /// # Panics
    /// Outside a tokio runtime with a timer.
    async fn close(&self, deadline: Instant) {
        self.change(|state| state.closed = true);
        let idle = timeout_at(deadline.into(), self.wait_until(State::is_idle)).await;
        if idle.is_ok() || !self.capabilities.honours_deadline {
            return;
        }
        let timeout = Error::new(ErrorKind::Timeout, "the mock engine was closed, and its deadline is over");
        self.end(
            |state| mem::take(&mut state.transfers),
            |transfer| self.end_transfer(transfer, TransferEnd::Fail(timeout.clone())),
        );
        self.end(
            |state| mem::take(&mut state.probes),
            |probe| self.end_probe(probe, ProbeEnd::Fail(timeout.clone())),
        );
    }
}

//! The tier's state machines on one thread, with a clock of their own: the job machine, the lookup table, real memory
//! with its leases, the real completion queue, and the mock engine, which ends things when and how it is told. After each
//! event everything is compared with a model. The tier itself needs threads; this is what it drives.

mod event;
mod model;
mod replay;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kvtier_core::job::{JobLimits, JobMachine, JobName, Settled};
use kvtier_core::lookup::{LookupLimits, LookupTable};
use kvtier_core::{
    Access, CompletionQueue, Direction, Error, ErrorKind, HostMemory, JobId, JobReport, KeyMapper, Lease,
    ObjectKey, OffloadKey, Outcome, Probe, RequestId, RetryPolicy, ShardedKeys, Transfer, TransferEngine,
    Verdict,
};
use kvtier_engine_mock::{MockEngine, MockStore, ProbeEnd, TransferEnd};

pub use event::{Blocks, End, Event, Object};
use model::{Block, Job, Model, State};
pub use replay::{Planted, Summary, replay};

const BLOCK_BYTES: usize = 32;
const SLOTS: u32 = 12;
const KEYS: u8 = 20;
const REQUESTS: u8 = 6;
const IN_FLIGHT_MAX: u32 = 4;
const QUEUED_MAX: u32 = 40;
const ATTEMPTS_MAX: u8 = 3;
/// How many things are checked after each event.
pub const INVARIANTS: u64 = 8;

/// The state machines and their model.
#[derive(Debug)]
pub struct Sim {
    machine: JobMachine<Lease>,
    lookups: LookupTable,
    memory: Arc<HostMemory>,
    queue: Arc<CompletionQueue>,
    engine: MockEngine,
    store: MockStore,
    mapper: ShardedKeys,
    now: Instant,
    finished: Vec<(JobId, JobReport)>,
    model: Model,
    events: u64,
    /// Of everything that happened, to compare two runs.
    digest: u64,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// Nothing stored, nothing running.
    ///
    /// # Panics
    /// If there is no memory for a few hundred bytes.
    pub fn new() -> Self {
        let retry = RetryPolicy {
            attempts_max: ATTEMPTS_MAX,
            backoff_first: Duration::from_millis(10),
            backoff_max: Duration::from_millis(20),
        };
        let limits = JobLimits {
            in_flight_max: IN_FLIGHT_MAX,
            queued_max: QUEUED_MAX,
            block_bytes: BLOCK_BYTES as u64,
        };
        let store = MockStore::default();
        #[expect(clippy::disallowed_methods, reason = "some moment to count from; nothing depends on which")]
        let now = Instant::now();
        Self {
            machine: JobMachine::new(limits, retry),
            lookups: LookupTable::new(LookupLimits { entries_max: 1000, in_flight_max: IN_FLIGHT_MAX }),
            memory: crate::expect(HostMemory::allocate(BLOCK_BYTES, SLOTS)),
            queue: Arc::default(),
            engine: MockEngine::manual(&store),
            store,
            mapper: crate::expect(ShardedKeys::new("kv")),
            now,
            finished: Vec::new(),
            model: Model::default(),
            events: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Lets one thing happen, and checks everything.
    ///
    /// # Panics
    /// If something is not as the model says.
    pub fn apply(&mut self, event: Event) {
        self.note(&format!("{event:?}"));
        match event {
            Event::Store(blocks) => self.submit(Direction::Store, blocks),
            Event::Load(blocks) => self.submit(Direction::Load, blocks),
            Event::Complete { nth, end } => self.complete(nth, end),
            Event::Answer { nth, end } => self.answer(nth, end),
            Event::Lookup { request, key } => drop(self.lookup(request % REQUESTS, key % KEYS)),
            Event::EndStep => self.lookups.flush(),
            Event::FinishRequest { request } => self.finish_request(request % REQUESTS),
            Event::Cancel { nth } => {
                let running = self.model.running();
                if let Some(id) = pick(&running, nth) {
                    self.machine.cancel(self.now, JobName::Numbered(*id));
                    self.model.cancel(*id);
                }
            }
            Event::CancelAll => self.cancel_all(),
            Event::Advance { ms } => self.now += Duration::from_millis(ms.into()),
            Event::Take => self.take(),
            Event::Plant { key, object } => self.plant(key % KEYS, object),
        }
        self.settle();
        self.launch();
        self.check();
        self.events += 1;
    }

    /// Ends everything, after which nothing may be left anywhere.
    ///
    /// # Panics
    /// If something is left.
    pub fn end(mut self) -> (u64, u64) {
        self.cancel_all();
        self.engine.complete_all();
        self.engine.answer_all();
        (0..REQUESTS).for_each(|request| self.finish_request(request));
        self.settle();
        // Probes that were queued behind others go out, and are dropped, only now.
        while self.lookups.next_probe().is_some() {}
        self.check();
        self.take();
        assert_eq!(self.model.reported, self.model.accepted, "a job was never reported");
        assert_eq!(self.machine.counts(), kvtier_core::job::JobCounts::default());
        let lookups = self.lookups.counts();
        assert_eq!((lookups.entries, lookups.in_flight), (0, 0), "lookups were left");
        assert_eq!(self.memory.leased_slots(), 0, "a lease was left");
        assert!(self.engine.pending_transfers().is_empty() && self.engine.pending_probes().is_empty());
        (self.events, self.digest)
    }

    /// What must hold after every event: the machine's own books; as many blocks queued, in flight and jobs running as
    /// the model has; the engine holds what is in flight; never more than the window; the slots that are leased are those of
    /// blocks that have not ended; the lost ones are quarantined; the engine holds the probes that are out.
    fn check(&self) {
        self.machine.assert_invariants();
        let counts = self.machine.counts();
        let in_flight = self.model.count(|state| matches!(state, State::InFlight { .. }));
        let queued = self.model.count(|state| matches!(state, State::Queued { .. }));
        assert_eq!((counts.queued as usize, counts.in_flight as usize), (queued, in_flight));
        assert_eq!(counts.running, self.model.running().len(), "jobs that run");
        assert_eq!(self.engine.pending_transfers().len(), in_flight, "transfers at the engine");
        assert!(counts.in_flight <= IN_FLIGHT_MAX, "the window is full");
        assert_eq!(self.memory.leased_slots() as usize, self.model.held().len(), "slots that are leased");
        assert_eq!(self.memory.quarantined_slots() as usize, self.model.lost.len(), "slots that are lost");
        assert_eq!(
            self.lookups.counts().in_flight,
            self.engine.pending_probes().len(),
            "probes that are out"
        );
    }

    fn submit(&mut self, direction: Direction, blocks: Blocks) {
        let count = blocks.count % 4;
        let blocks: Vec<_> = (0..count)
            .map(|n| Block {
                key: blocks.key.wrapping_add(n) % KEYS,
                slot: u32::from(blocks.slot.wrapping_add(n)) % SLOTS,
                state: State::Queued { attempts: 0 },
            })
            .collect();
        if direction == Direction::Store && !self.fill(&blocks) {
            return;
        }
        let mut leases = Vec::new();
        for block in &blocks {
            let is_free = self.model.is_free(block.slot, direction);
            let clashes = direction == Direction::Load
                && blocks[..leases.len()].iter().any(|other| other.slot == block.slot);
            if let Ok(lease) = self.memory.lease(block.slot, direction.access()) {
                assert!(is_free && !clashes, "slot {} was leased twice", block.slot);
                leases.push(lease);
            } else {
                assert!(!is_free || clashes, "slot {} is taken by nobody", block.slot);
                return;
            }
        }
        let id = JobId(self.model.accepted);
        let keys = blocks.iter().map(|block| key(block.key)).collect();
        let accepted = self.machine.accept(self.now, JobName::Numbered(id), direction, keys, leases);
        let room = QUEUED_MAX as usize - self.model.count(|state| matches!(state, State::Queued { .. }));
        assert_eq!(accepted.is_ok(), blocks.len() <= room, "{accepted:?}");
        if accepted.is_ok() {
            self.model.accepted += 1;
            self.model.jobs.insert(id, Job { direction, blocks, is_cancelled: false });
        }
    }

    /// Puts into each slot what its key stands for; says whether every slot could be written.
    fn fill(&mut self, blocks: &[Block]) -> bool {
        blocks.iter().all(|block| {
            let lease = self.memory.lease(block.slot, Access::Write);
            lease.map(|mut lease| lease.copy_in(0, &bytes(block.key))).is_ok()
        })
    }

    fn complete(&mut self, nth: u8, end: End) {
        let pending = self.engine.pending_transfers();
        let Some(transfer) = pick(&pending, nth) else { return };
        let end = match end {
            End::Perform => TransferEnd::Perform,
            End::Temporary => TransferEnd::Fail(Error::new(ErrorKind::Throttled, "planted")),
            End::Permanent => TransferEnd::Fail(Error::new(ErrorKind::Denied, "planted")),
            End::Drop => TransferEnd::Drop,
            End::Lose => TransferEnd::DropExposed,
        };
        self.engine.complete(transfer.id, end);
    }

    fn answer(&mut self, nth: u8, end: End) {
        let pending = self.engine.pending_probes();
        let Some(name) = pick(&pending, nth) else { return };
        let end = match end {
            End::Perform => ProbeEnd::Perform,
            End::Temporary => ProbeEnd::Fail(Error::new(ErrorKind::Throttled, "planted")),
            End::Permanent => ProbeEnd::Fail(Error::new(ErrorKind::Denied, "planted")),
            End::Drop | End::Lose => ProbeEnd::Drop,
        };
        self.engine.answer(name, end);
    }

    /// Asks, and checks that a verdict stays as it is but for what changes it.
    fn lookup(&mut self, request: u8, of: u8) -> Verdict {
        let request = RequestId(request.into());
        let verdict = self.lookups.lookup(request, &key(of));
        if let Some(known) = self.model.verdicts.get(&(request, of)) {
            assert_eq!(verdict, *known, "the verdict of key {of} changed by itself");
        }
        match verdict {
            Verdict::Pending => {}
            Verdict::Hit | Verdict::Miss => {
                let is_known = self.model.ever_there.contains(&of);
                assert!(verdict == Verdict::Miss || is_known, "a hit for key {of}, which never was there");
                self.model.verdicts.insert((request, of), verdict);
            }
        }
        self.note(&format!("{verdict:?}"));
        verdict
    }

    fn finish_request(&mut self, request: u8) {
        let request = RequestId(request.into());
        self.lookups.finish_request(request);
        self.model.verdicts.retain(|(other, _), _| *other != request);
    }

    fn cancel_all(&mut self) {
        self.machine.cancel_all(self.now);
        for id in self.model.running() {
            self.model.cancel(id);
        }
    }

    fn plant(&mut self, of: u8, object: Object) {
        let name = self.name(of);
        match object {
            Object::Whole => drop(self.store.insert(name, bytes(of))),
            Object::Short => drop(self.store.insert(name, vec![of; BLOCK_BYTES / 2])),
            Object::Absent => drop(self.store.remove(&name)),
        }
        if object != Object::Absent {
            self.model.ever_there.insert(of);
        }
    }

    /// Takes what the engine has posted, as the tier's driver does.
    fn settle(&mut self) {
        let posted = self.queue.take();
        for completion in posted.transfers {
            let (id, kept) = (completion.id, completion.lease.is_some());
            let result = completion.result.clone();
            let settled = self.machine.settle(self.now, id, completion.lease, completion.result);
            let Some((job, index)) = self.model.in_flight.remove(&id) else {
                panic!("{id:?} was never in flight");
            };
            self.settled(job, index, &result, kept, settled);
        }
        for answer in posted.answers {
            self.lookups.answer(answer.id, &answer.result);
        }
        for (name, report) in self.machine.take_finished() {
            let JobName::Numbered(id) = name else { panic!("no task ran") };
            self.learn(&report);
            self.finished.push((id, report));
        }
    }

    fn settled(&mut self, id: JobId, index: usize, result: &Result<(), Error>, kept: bool, settled: Settled) {
        let Some(job) = self.model.jobs.get_mut(&id) else {
            panic!("{id} was reported with a block in flight")
        };
        let direction = job.direction;
        let block = &mut job.blocks[index];
        let State::InFlight { attempts } = block.state else { panic!("{block:?} was not in flight") };
        let is_temporary = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Throttled);
        let retries = is_temporary && kept && !job.is_cancelled && attempts < ATTEMPTS_MAX;
        assert_eq!(settled, if retries { Settled::Retrying } else { Settled::Final });
        block.state = match result {
            Ok(()) => State::Done,
            Err(_) if retries => State::Queued { attempts },
            Err(_) => State::Failed,
        };
        let (of, slot) = (block.key, block.slot);
        if !kept {
            self.model.lost.insert(slot);
        }
        if result.is_ok() && direction == Direction::Store {
            self.model.ever_there.insert(of);
        }
        if result.is_ok() && direction == Direction::Load {
            let lease = self.memory.lease(slot, Access::Read);
            let slot = lease.unwrap_or_else(|error| panic!("a loaded slot is not free: {error}")).to_vec();
            assert_eq!(slot, bytes(of), "a load of key {of} brought other bytes");
        }
        self.note(&format!("{id} {index} {settled:?}"));
    }

    /// What lookups learn from a job that has ended, as in the tier.
    fn learn(&mut self, report: &JobReport) {
        for (of, outcome) in report.blocks() {
            let verdict = match (report.direction, outcome) {
                (Direction::Store, Outcome::Done | Outcome::Skipped) => {
                    self.lookups.stored(of);
                    Verdict::Hit
                }
                (Direction::Load, Outcome::Failed(_)) => {
                    self.lookups.load_failed(of);
                    Verdict::Miss
                }
                (Direction::Store, Outcome::Failed(_) | Outcome::Cancelled)
                | (Direction::Load, Outcome::Done | Outcome::Skipped | Outcome::Cancelled) => continue,
            };
            for ((_, known), last) in &mut self.model.verdicts {
                if key(*known) == *of {
                    *last = verdict;
                }
            }
        }
    }

    /// Hands over what may go, as the tier's driver does.
    fn launch(&mut self) {
        while let Some(launch) = self.machine.launch(self.now) {
            let slot = launch.lease.slot();
            let place = self.model.jobs.iter_mut().find_map(|(id, job)| {
                let is_it = |block: &Block| {
                    matches!(block.state, State::Queued { .. })
                        && block.slot == slot
                        && key(block.key) == launch.key
                };
                (job.direction == launch.direction).then(|| job.blocks.iter().position(is_it)).flatten().map(
                    |index| {
                        let State::Queued { attempts } = job.blocks[index].state else {
                            unreachable!("looked for")
                        };
                        job.blocks[index].state = State::InFlight { attempts: attempts + 1 };
                        (*id, index)
                    },
                )
            });
            let place =
                place.unwrap_or_else(|| panic!("a block was launched that nobody queued: {launch:?}"));
            self.model.in_flight.insert(launch.id, place);
            let name = self.mapper.object_key(&launch.key);
            self.engine.submit(vec![Transfer::new(
                launch.id,
                launch.direction,
                name,
                launch.lease,
                &self.queue,
            )]);
        }
        while let Some((id, of)) = self.lookups.next_probe() {
            self.engine.lookup(vec![Probe::new(id, self.mapper.object_key(&of), &self.queue)]);
        }
    }

    fn take(&mut self) {
        for (id, report) in std::mem::take(&mut self.finished) {
            self.model.report(id, &report.outcomes);
            self.machine.release(id);
        }
    }

    fn name(&self, of: u8) -> ObjectKey {
        self.mapper.object_key(&key(of))
    }

    /// Mixes a text into the digest: FNV-1a, the same on every machine.
    fn note(&mut self, text: &str) {
        for byte in text.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn pick<T>(from: &[T], nth: u8) -> Option<&T> {
    from.get(usize::from(nth).checked_rem(from.len())?)
}

fn key(n: u8) -> OffloadKey {
    crate::key(n)
}

/// The block that a key stands for.
fn bytes(key: u8) -> Vec<u8> {
    (0..BLOCK_BYTES).map(|at| key.wrapping_mul(7).wrapping_add(u8::try_from(at).unwrap_or(0))).collect()
}

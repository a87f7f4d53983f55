//! A lane, its world, and the tier's side of it: memory, queue, clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvtier_core::{
    Access, CompletionQueue, Direction, Error, HostMemory, ObjectKey, Presence, Probe, ProbeId, Transfer,
    TransferId,
};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::world::{World, library};
use crate::agent::Agent;
use crate::lane::{Health, Lane, LaneOptions, Work};

pub(super) const BLOCK_BYTES: usize = 1024;
pub(super) const SLOTS: u32 = 32;
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn options(zero_copy: bool) -> LaneOptions {
    LaneOptions {
        name: "test",
        threads: 2,
        window: 8,
        staging_bytes: 1 << 20,
        zero_copy,
        request_timeout: TIMEOUT,
        denied_is_absent: false,
    }
}

pub(super) struct Bench {
    pub(super) lane: Option<Lane>,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) health: Arc<Health>,
    pub(super) memory: Arc<HostMemory>,
    pub(super) queue: Arc<CompletionQueue>,
    /// How each transfer ended; twice is a failure of the test.
    pub(super) ended: BTreeMap<u64, Result<(), Error>>,
    pub(super) answers: BTreeMap<u64, Result<Presence, Error>>,
    pub(super) now: Instant,
    next: u64,
}

impl Bench {
    pub(super) fn try_new(world: World, options: LaneOptions) -> Result<Self, Error> {
        let world = Arc::new(Mutex::new(world));
        let health = Arc::<Health>::default();
        let api = library(&world);
        let open = Box::new(move || Agent::open(Arc::clone(&api), "test", &Vec::new()));
        let lane = Lane::new(options, open, Arc::clone(&health), ChaCha8Rng::seed_from_u64(1));
        let memory = HostMemory::allocate(BLOCK_BYTES, SLOTS).unwrap();
        #[expect(clippy::disallowed_methods, reason = "some moment to count from")]
        let now = Instant::now();
        let lane = match lane {
            Ok(lane) => Some(lane),
            Err(error) => {
                assert_eq!(world.lock().left_over(), 0, "a lane that could not open left something behind");
                return Err(error);
            }
        };
        let (queue, ended, answers) = <_>::default();
        Ok(Self { lane, world, health, memory, queue, ended, answers, now, next: 0 })
    }

    pub(super) fn new(world: World, options: LaneOptions) -> Self {
        Self::try_new(world, options).unwrap()
    }

    pub(super) fn lane(&mut self) -> &mut Lane {
        self.lane.as_mut().unwrap()
    }

    pub(super) fn fill(&self, slot: u32, byte: u8) {
        self.memory.lease(slot, Access::Write).unwrap().copy_in(0, &[byte; BLOCK_BYTES]);
    }

    pub(super) fn slot(&self, slot: u32) -> Vec<u8> {
        self.memory.lease(slot, Access::Read).unwrap().to_vec()
    }

    /// Hands over one transfer and says its number.
    pub(super) fn send(
        &mut self,
        direction: Direction,
        key: &str,
        slot: u32,
        after: Option<Duration>,
    ) -> u64 {
        self.next += 1;
        let lease = self.memory.lease(slot, direction.access()).unwrap();
        let key = ObjectKey::new(key).unwrap();
        let transfer = Transfer::new(TransferId(self.next), direction, key, lease, &self.queue);
        let deadline = after.map(|after| self.now + after);
        self.lane().accept(vec![Work::Transfer(transfer.with_deadline(deadline))]);
        self.next
    }

    pub(super) fn ask(&mut self, key: &str) -> u64 {
        self.next += 1;
        let probe = Probe::new(ProbeId(self.next), ObjectKey::new(key).unwrap(), &self.queue);
        self.lane().accept(vec![Work::Lookup(probe)]);
        self.next
    }

    pub(super) fn step(&mut self) {
        let now = self.now;
        if let Some(lane) = &mut self.lane {
            lane.step(now);
        }
        self.collect();
    }

    pub(super) fn collect(&mut self) {
        let posted = self.queue.take();
        for completion in posted.transfers {
            assert!(self.ended.insert(completion.id.0, completion.result).is_none(), "completed twice");
        }
        for answer in posted.answers {
            assert!(self.answers.insert(answer.id.0, answer.result).is_none(), "answered twice");
        }
    }

    /// Steps until nothing changes for a while.
    pub(super) fn settle(&mut self) {
        for _ in 0..64 {
            self.step();
            self.now += Duration::from_millis(1);
        }
    }

    /// Closes at once, and ends the lane as its thread does.
    pub(super) fn close(&mut self) {
        let now = self.now;
        self.lane().close(now);
        self.step();
        drop(self.lane.take());
        self.collect();
    }

    /// Nothing was misused, every transfer ended, and every slot is free.
    pub(super) fn assert_clean(&self, transfers: usize) {
        let world = self.world.lock();
        assert!(world.misuse.is_empty(), "{:?}", world.misuse);
        assert_eq!(self.ended.len(), transfers, "one result for each transfer");
        assert_eq!((self.memory.leased_slots(), self.memory.quarantined_slots()), (0, 0));
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvtier_core::{
    Access, CompletionQueue, Direction, Error, ErrorKind, HostMemory, ObjectKey, Presence, Probe, ProbeId,
    Transfer, TransferEngine, TransferId,
};
use tokio::time::timeout;

use crate::SuiteOptions;
use crate::case::{Check, ensure};
use crate::fixture::{BackDoor, Fault, Fixture};

/// Slots that the cases use besides those of the largest batch.
const SLOTS_MIN: u32 = 256;
/// What a slot holds that nobody has filled.
const UNTOUCHED: u8 = 0xC3;

/// One case's engine, memory, queue and names, and everything that is checked about them in every case.
pub(crate) struct Bench<'a> {
    pub(crate) engine: Box<dyn TransferEngine>,
    pub(crate) fixture: &'a dyn Fixture,
    pub(crate) options: &'a SuiteOptions,
    memory: Arc<HostMemory>,
    queue: Arc<CompletionQueue>,
    case: &'static str,
    next: u64,
    ended: BTreeMap<TransferId, Result<(), Error>>,
    answers: BTreeMap<ProbeId, Result<Presence, Error>>,
    running: BTreeSet<TransferId>,
    /// What each slot must hold at the end.
    expected: Vec<Option<Vec<u8>>>,
    keys: BTreeSet<ObjectKey>,
    faults_of_engine: Vec<String>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        engine: Box<dyn TransferEngine>,
        fixture: &'a dyn Fixture,
        options: &'a SuiteOptions,
        case: &'static str,
        block_bytes: usize,
    ) -> Result<Self, String> {
        let mut bench = Self {
            engine,
            fixture,
            options,
            memory: HostMemory::allocate(1, 1).map_err(|error| error.to_string())?,
            queue: Arc::default(),
            case,
            next: 0,
            ended: BTreeMap::new(),
            answers: BTreeMap::new(),
            running: BTreeSet::new(),
            expected: Vec::new(),
            keys: BTreeSet::new(),
            faults_of_engine: Vec::new(),
        };
        bench.memory(block_bytes, options.batch_max.max(SLOTS_MIN))?;
        Ok(bench)
    }

    /// Other memory, for blocks of this size. The old one must be free.
    pub(crate) fn memory(&mut self, block_bytes: usize, slots: u32) -> Check {
        // Large blocks come in small numbers.
        let slots = slots.min(u32::try_from((64 << 20) / block_bytes).unwrap_or(u32::MAX).max(16));
        self.memory = HostMemory::allocate(block_bytes, slots).map_err(|error| error.to_string())?;
        self.expected = vec![None; slots as usize];
        for slot in 0..slots {
            self.fill(slot, &vec![UNTOUCHED; block_bytes])?;
        }
        self.fixture.watch(&self.memory, &self.queue);
        Ok(())
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    /// Bytes that follow from a number, and differ within a block.
    pub(crate) fn block(&self, seed: u32) -> Vec<u8> {
        block(seed, self.block_bytes())
    }

    /// Fills a slot, whose bytes must be these at the end.
    pub(crate) fn fill(&mut self, slot: u32, bytes: &[u8]) -> Check {
        let lease = self.memory.lease(slot, Access::Write);
        lease
            .map_err(|error| format!("a slot is not free when its transfer has ended: {error}"))?
            .copy_in(0, bytes);
        self.expected[slot as usize] = Some(bytes.to_vec());
        Ok(())
    }

    pub(crate) fn slot(&self, slot: u32) -> Result<Vec<u8>, String> {
        Ok(self.memory.lease(slot, Access::Read).map_err(|error| error.to_string())?.to_vec())
    }

    /// The name of one of the case's objects.
    pub(crate) fn key(&mut self, name: &str) -> Result<ObjectKey, String> {
        let key = ObjectKey::new(format!("{}/{}/{name}", self.fixture.prefix(), self.case));
        let key = key.map_err(|error| error.to_string())?;
        self.keys.insert(key.clone());
        Ok(key)
    }

    pub(crate) fn back_door(&self) -> &'a dyn BackDoor {
        self.fixture.back_door()
    }

    /// Puts an object behind the engine's back.
    pub(crate) async fn plant(&mut self, name: &str, bytes: Vec<u8>) -> Check {
        let key = self.key(name)?;
        self.back_door().put(&key, bytes).await.map_err(|error| format!("the back door failed: {error}"))
    }

    /// What the store really holds.
    pub(crate) async fn object(&mut self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let key = self.key(name)?;
        self.back_door().get(&key).await.map_err(|error| format!("the back door failed: {error}"))
    }

    /// Hands over a batch; says the transfers' numbers in order.
    pub(crate) fn start(
        &mut self,
        direction: Direction,
        blocks: &[(&str, u32)],
    ) -> Result<Vec<TransferId>, String> {
        self.start_until(direction, blocks, None)
    }

    pub(crate) fn start_until(
        &mut self,
        direction: Direction,
        blocks: &[(&str, u32)],
        deadline: Option<Instant>,
    ) -> Result<Vec<TransferId>, String> {
        let mut batch = Vec::new();
        for (name, slot) in blocks {
            let key = self.key(name)?;
            self.next += 1;
            let id = TransferId(self.next);
            let lease = self.memory.lease(*slot, direction.access()).map_err(|error| error.to_string())?;
            batch.push(Transfer::new(id, direction, key, lease, &self.queue).with_deadline(deadline));
            self.running.insert(id);
            if direction == Direction::Load {
                self.expected[*slot as usize] = None;
            }
        }
        let ids = batch.iter().map(Transfer::id).collect();
        self.engine.submit(batch);
        Ok(ids)
    }

    /// Moves blocks and says how each ended, in order.
    pub(crate) async fn run(
        &mut self,
        direction: Direction,
        blocks: &[(&str, u32)],
    ) -> Result<Vec<Result<(), Error>>, String> {
        let ids = self.start(direction, blocks)?;
        self.finish(&ids).await
    }

    /// Like [`run`](Self::run), for blocks that must all be moved.
    pub(crate) async fn run_all(&mut self, direction: Direction, blocks: &[(&str, u32)]) -> Check {
        for (result, (name, _)) in self.run(direction, blocks).await?.into_iter().zip(blocks) {
            result.map_err(|error| format!("the {direction} of {name} failed: {error}"))?;
        }
        Ok(())
    }

    /// Waits for these transfers.
    pub(crate) async fn finish(&mut self, ids: &[TransferId]) -> Result<Vec<Result<(), Error>>, String> {
        while ids.iter().any(|id| !self.ended.contains_key(id)) {
            self.wait("a transfer").await?;
        }
        Ok(ids.iter().map(|id| self.ended[id].clone()).collect())
    }

    /// Waits for the next completion, and says which.
    pub(crate) async fn next_ended(&mut self) -> Result<Vec<(TransferId, Result<(), Error>)>, String> {
        let before: BTreeSet<_> = self.ended.keys().copied().collect();
        self.wait("a transfer").await?;
        Ok(self
            .ended
            .iter()
            .filter(|(id, _)| !before.contains(id))
            .map(|(id, end)| (*id, end.clone()))
            .collect())
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Asks for objects and says the answers in order.
    pub(crate) async fn lookup(&mut self, names: &[&str]) -> Result<Vec<Result<Presence, Error>>, String> {
        let mut probes = Vec::new();
        let first = self.next + 1;
        for name in names {
            let key = self.key(name)?;
            self.next += 1;
            probes.push(Probe::new(ProbeId(self.next), key, &self.queue));
        }
        let ids: Vec<_> = (first..=self.next).map(ProbeId).collect();
        self.engine.lookup(probes);
        while ids.iter().any(|id| !self.answers.contains_key(id)) {
            self.wait("a lookup").await?;
        }
        Ok(ids.iter().map(|id| self.answers[id].clone()).collect())
    }

    async fn wait(&mut self, what: &str) -> Check {
        let patience = self.options.patience;
        let waited = timeout(patience, self.queue.posted()).await;
        waited.map_err(|_| format!("{what} got lost: nothing came for {patience:?}"))?;
        self.collect();
        Ok(())
    }

    /// Takes what has come, and notes what may not come.
    fn collect(&mut self) {
        let posted = self.queue.take();
        for completion in posted.transfers {
            let id = completion.id.0;
            if !self.running.remove(&completion.id) {
                self.faults_of_engine
                    .push(format!("transfer {id} was completed twice, or never handed over"));
            }
            let is_lost = completion.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost);
            if completion.lease.is_none() && !is_lost {
                self.faults_of_engine.push(format!("transfer {id} kept its slot and does not say so"));
            }
            self.ended.insert(completion.id, completion.result);
        }
        for answer in posted.answers {
            if self.answers.insert(answer.id, answer.result).is_some() {
                self.faults_of_engine.push(format!("probe {} was answered twice", answer.id.0));
            }
        }
    }

    /// Closes the engine within `patience`, and says how long it took.
    pub(crate) async fn close(&self, patience: Duration) -> Result<Duration, String> {
        let start = now();
        let closing = timeout(patience + self.options.patience, self.engine.close(start + patience));
        closing.await.map_err(|_| "close did not return".to_owned())?;
        Ok(start.elapsed())
    }

    /// Takes what has come, without waiting.
    pub(crate) fn take_posted(&mut self) {
        self.collect();
    }

    /// Makes the store fail for one of the case's objects.
    pub(crate) async fn inject(&mut self, name: &str, fault: Fault, once: bool) -> Check {
        let key = self.key(name)?;
        let faults = self.fixture.faults().ok_or("the fixture cannot make the store fail")?;
        faults.inject(&key, fault, once).await;
        Ok(())
    }

    /// Drops the engine, without a close, for a fresh one.
    pub(crate) async fn replace_engine(&mut self) -> Check {
        self.engine = self.fixture.open().await.map_err(|error| format!("no engine: {error}"))?;
        Ok(())
    }

    /// What must hold at the end of every case: after the close nothing runs, nothing more comes, every slot is free, and no
    /// slot was touched that nobody gave away.
    pub(crate) async fn end(mut self) -> Check {
        if let Some(faults) = self.fixture.faults() {
            faults.clear().await;
        }
        self.collect();
        tokio::time::sleep(self.options.watch).await;
        self.close(self.options.patience).await?;
        // What could not be given up ends now that the store answers again.
        while self.is_running() {
            self.wait("a transfer in flight at the close").await?;
        }
        tokio::time::sleep(self.options.watch).await;
        self.collect();
        ensure!(self.faults_of_engine.is_empty(), "{}", self.faults_of_engine.join("; "));
        let (leased, lost) = (self.memory.leased_slots(), self.memory.quarantined_slots());
        ensure!(leased == 0, "{leased} slots are still taken though every transfer has ended");
        ensure!(lost == 0, "{lost} slots were lost");
        for (slot, expected) in (0..).zip(&self.expected) {
            let Some(expected) = expected else { continue };
            ensure!(self.slot(slot)? == *expected, "slot {slot} was written after its transfer had ended");
        }
        Ok(())
    }

    /// Every name that the case may have used.
    pub(crate) fn keys(&self) -> BTreeSet<ObjectKey> {
        self.keys.clone()
    }
}

/// Bytes that follow from a number, and differ within a block.
pub(crate) fn block(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[expect(clippy::disallowed_methods, reason = "a deadline for the engine under test")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

use std::collections::{HashSet, TryReserveError};
use std::error::Error as StdError;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use kvtier::{
    Access, ErrorKind, JobReport, Lease, LeaseError, OffloadKey, Outcome, SecondaryTier, ShardedKeys,
    SubmitError, TransferEngine,
};
use kvtier_cli::trace::{BLOCK_TOKENS, Request};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::content::{self, Content};
use super::primary::Primary;
use super::report::Report;

/// The tier that is replayed onto.
pub(crate) type Tier = SecondaryTier<Box<dyn TransferEngine>, ShardedKeys>;

/// Most blocks in one job.
const JOB_BLOCKS_MAX: usize = 256;

/// Serves requests, one after the other, the way an engine's scheduler does.
#[derive(Debug)]
pub(crate) struct Runner {
    tier: Arc<Tier>,
    content: Content,
    primary: Primary,
    /// Stores in the background, each with the blocks that it keeps pinned.
    stores: JoinSet<(Vec<u64>, Result<JobReport, SubmitError>)>,
    report: Report,
    expected: Vec<u8>,
    found: Vec<u8>,
}

impl Runner {
    /// # Errors
    /// If there is no memory for two more blocks, to compare with.
    pub(crate) fn new(tier: Arc<Tier>, slots: NonZeroU32, report: Report) -> Result<Self, TryReserveError> {
        let block_bytes = tier.memory().block_bytes();
        // A trace is the same wherever it lies: its folder must not change its keys.
        let workload = report.setup.workload.rsplit(['/', '\\']).next().unwrap_or_default();
        Ok(Self {
            content: Content::new(workload),
            primary: Primary::new(slots),
            stores: JoinSet::new(),
            report,
            expected: zeros(block_bytes)?,
            found: zeros(block_bytes)?,
            tier,
        })
    }

    /// Serves one request: the longest prefix from memory and the store, the rest computed and stored in
    /// the background.
    ///
    /// # Errors
    /// If the tier refuses a job, which only a closed tier does here.
    pub(crate) async fn serve(&mut self, request: &Request) -> Result<(), Box<dyn StdError>> {
        while let Some(stored) = self.stores.try_join_next() {
            self.finish_store(stored?)?;
        }
        let ids = &request.hash_ids;
        let in_memory = ids.iter().take_while(|id| self.primary.touch(**id)).count();
        let present = self.look_up(&ids[in_memory..]).await;
        let reachable =
            ids[in_memory..].iter().take_while(|id| present.contains(id) || self.primary.touch(**id)).count();
        let wanted: Vec<_> = ids[in_memory..in_memory + reachable]
            .iter()
            .copied()
            .filter(|id| !self.primary.holds(*id))
            .collect();
        let failed = self.load(&wanted).await?;
        let served = ids[..in_memory + reachable].iter().take_while(|id| !failed.contains(id)).count();
        let from_store = wanted.iter().take_while(|id| !failed.contains(id)).count();
        self.compute(&ids[served..], &present, &failed).await?;

        let report = &mut self.report;
        report.requests += 1;
        report.blocks += ids.len() as u64;
        report.store_hit_blocks += from_store as u64;
        report.memory_hit_blocks += (served - from_store) as u64;
        report.computed_blocks += (ids.len() - served) as u64;
        report.tokens += request.input_length;
        report.tokens_not_recomputed += request.input_length.min(served as u64 * BLOCK_TOKENS);
        Ok(())
    }

    /// Waits for the stores in the background.
    ///
    /// # Errors
    /// As for [`serve`](Self::serve).
    pub(crate) async fn finish_stores(&mut self) -> Result<(), Box<dyn StdError>> {
        while let Some(stored) = self.stores.join_next().await {
            self.finish_store(stored?)?;
        }
        Ok(())
    }

    /// The report so far; the stores that still run are dropped, which cancels what they have queued.
    pub(crate) fn into_report(self, elapsed: Duration, interrupted: bool) -> Report {
        Report { interrupted, elapsed, ..self.report }
    }

    /// Which of the blocks that are not in memory are in the store.
    async fn look_up(&mut self, ids: &[u64]) -> HashSet<u64> {
        let ids: Vec<_> = ids.iter().copied().filter(|id| !self.primary.holds(*id)).collect();
        if ids.is_empty() {
            return HashSet::new();
        }
        let keys: Vec<_> = ids.iter().map(|id| self.content.key(*id)).collect();
        let start = Instant::now();
        let answers = self.tier.contains(&keys).await;
        self.report.lookup.latency.record(start.elapsed());
        let mut present = HashSet::new();
        for (id, answer) in ids.into_iter().zip(answers) {
            match answer {
                Ok(presence) if presence.is_present() => {
                    present.insert(id);
                }
                Ok(_) => {}
                Err(error) => self.report.lookup.failed(&error),
            }
        }
        present
    }

    /// Loads blocks into memory, and returns those that could not be loaded.
    async fn load(&mut self, ids: &[u64]) -> Result<HashSet<u64>, Box<dyn StdError>> {
        let mut failed = HashSet::new();
        let mut rest = ids;
        while !rest.is_empty() {
            let slots = self.take_slots(rest.len().min(JOB_BLOCKS_MAX)).await?;
            let (now, later) = rest.split_at(slots.len());
            rest = later;
            let keys = now.iter().map(|id| self.content.key(*id)).collect();
            let job = self.tier.load(keys, &slots).await?;
            self.report.loaded.jobs.latency.record(job.duration);
            self.report.loaded.bytes += job.bytes;
            for ((id, slot), (key, outcome)) in now.iter().zip(slots).zip(job.blocks()) {
                if self.is_loaded(key, slot, outcome)? {
                    self.primary.insert(*id, slot);
                    continue;
                }
                failed.insert(*id);
                if !is_lost(outcome) {
                    self.primary.give_back(slot);
                }
            }
        }
        Ok(failed)
    }

    /// Whether a block was loaded with the right bytes; counts what happened to it.
    fn is_loaded(&mut self, key: &OffloadKey, slot: u32, outcome: &Outcome) -> Result<bool, LeaseError> {
        if !self.report.loaded.count(outcome) {
            let refused = matches!(outcome, Outcome::Failed(error) if error.kind() == ErrorKind::Corrupt);
            self.report.corrupt_refused_blocks += u64::from(refused);
            return Ok(false);
        }
        self.lease(slot, Access::Read)?.copy_out(0, &mut self.found);
        content::fill(key, &mut self.expected);
        let right = self.found == self.expected;
        if !right {
            tracing::error!(%key, "a block was served with wrong bytes");
            self.report.corrupt_served_blocks += 1;
        }
        Ok(right)
    }

    /// Computes the blocks that are not in memory, and stores those that the store does not have.
    async fn compute(
        &mut self,
        ids: &[u64],
        present: &HashSet<u64>,
        failed: &HashSet<u64>,
    ) -> Result<(), Box<dyn StdError>> {
        let mut rest: Vec<_> = ids.iter().copied().filter(|id| !self.primary.holds(*id)).collect();
        while !rest.is_empty() {
            let slots = self.take_slots(rest.len().min(JOB_BLOCKS_MAX)).await?;
            let later = rest.split_off(slots.len());
            let (mut stored_ids, mut stored_slots) = (Vec::new(), Vec::new());
            for (id, slot) in rest.into_iter().zip(slots) {
                content::fill(&self.content.key(id), &mut self.expected);
                self.lease(slot, Access::Write)?.copy_in(0, &self.expected);
                // A block that could not be loaded is stored anew: its object may be damaged.
                if present.contains(&id) && !failed.contains(&id) {
                    self.primary.insert(id, slot);
                } else {
                    self.primary.insert_pinned(id, slot);
                    stored_ids.push(id);
                    stored_slots.push(slot);
                }
            }
            rest = later;
            if !stored_ids.is_empty() {
                self.store(stored_ids, stored_slots);
            }
        }
        Ok(())
    }

    fn store(&mut self, ids: Vec<u64>, slots: Vec<u32>) {
        let keys = ids.iter().map(|id| self.content.key(*id)).collect();
        let tier = Arc::clone(&self.tier);
        self.stores.spawn(async move {
            let result = tier.store(keys, &slots).await;
            (ids, result)
        });
    }

    fn finish_store(
        &mut self,
        (ids, result): (Vec<u64>, Result<JobReport, SubmitError>),
    ) -> Result<(), SubmitError> {
        let job = result?;
        let stored = &mut self.report.stored;
        stored.jobs.latency.record(job.duration);
        stored.bytes += job.bytes;
        for (id, outcome) in ids.into_iter().zip(&job.outcomes) {
            stored.count(outcome);
            if is_lost(outcome) {
                self.primary.forget(id);
            } else {
                self.primary.unpin(id);
            }
        }
        Ok(())
    }

    /// At least one slot and at most `most`; waits for a store to end if all are being stored.
    async fn take_slots(&mut self, most: usize) -> Result<Vec<u32>, Box<dyn StdError>> {
        loop {
            let slots: Vec<_> = (0..most).map_while(|_| self.primary.take_slot()).collect();
            if !slots.is_empty() {
                return Ok(slots);
            }
            let start = Instant::now();
            let stored = self.stores.join_next().await;
            self.report.stalled += start.elapsed();
            match stored {
                Some(stored) => self.finish_store(stored?)?,
                None => return Err("every slot is quarantined".into()),
            }
        }
    }

    fn lease(&self, slot: u32, access: Access) -> Result<Lease, LeaseError> {
        self.tier.memory().lease(slot, access)
    }
}

fn zeros(bytes: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes)?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

/// Whether the slot of a block is quarantined, so that nobody can use it again.
fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(error) if error.kind() == ErrorKind::Lost)
}

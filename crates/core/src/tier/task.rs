//! The front door for tasks.

use std::sync::Arc;

use super::SecondaryTier;
use super::shared::Shared;
use crate::completion::CompletionQueue;
use crate::job::JobName;
use crate::{
    Direction, Error, JobReport, KeyMapper, OffloadKey, Presence, Probe, ProbeId, SubmitError, TransferEngine,
};

impl<E: TransferEngine, K: KeyMapper> SecondaryTier<E, K> {
    /// Copies blocks from their slots into the store, and returns when nothing reads the slots any more.
    /// `keys[i]` goes with `slots[i]`.
    ///
    /// # Errors
    /// [`SubmitError`] if the job is not accepted: nothing was started. What becomes of an accepted block is
    /// in the report.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the blocks that are still queued. Those in flight end in the background, their slots
    /// leased until then.
    pub async fn store(&self, keys: Vec<OffloadKey>, slots: &[u32]) -> Result<JobReport, SubmitError> {
        self.run(Direction::Store, keys, slots).await
    }

    /// Copies blocks from the store into their slots, and returns when nothing writes the slots any
    /// more. `keys[i]` goes with `slots[i]`. The slots of blocks that are not `Done` hold unspecified bytes.
    ///
    /// # Errors
    /// As for [`store`](Self::store).
    ///
    /// # Cancel safety
    /// As for [`store`](Self::store).
    pub async fn load(&self, keys: Vec<OffloadKey>, slots: &[u32]) -> Result<JobReport, SubmitError> {
        self.run(Direction::Load, keys, slots).await
    }

    /// Whether each block is in the store, asked now: one answer per key, in the order given. One
    /// key's error spoils no other's answer.
    ///
    /// # Cancel safety
    /// Dropping the future drops the answers; nothing else depends on them.
    pub async fn contains(&self, keys: &[OffloadKey]) -> Vec<Result<Presence, Error>> {
        // A queue of its own: the answers are nobody else's business.
        let queue = Arc::new(CompletionQueue::default());
        let window = self.engine().capabilities().probes_in_flight_max as usize;
        let mut answers: Vec<Option<Result<Presence, Error>>> = vec![None; keys.len()];
        let (mut sent, mut answered) = (0, 0);
        while answered < keys.len() {
            let until = keys.len().min(answered + window);
            if sent < until {
                let probe = |at| Probe::new(ProbeId(at as u64), self.mapper().object_key(&keys[at]), &queue);
                self.engine().lookup((sent..until).map(probe).collect());
                sent = until;
            }
            let posted = queue.take().answers;
            if posted.is_empty() {
                queue.posted().await;
            }
            for answer in posted {
                let slot = usize::try_from(answer.id.0).ok().and_then(|at| answers.get_mut(at));
                if let Some(slot @ None) = slot {
                    *slot = Some(answer.result);
                    answered += 1;
                }
            }
        }
        // As many as were answered, which is all of them.
        answers.into_iter().flatten().collect()
    }

    async fn run(
        &self,
        direction: Direction,
        keys: Vec<OffloadKey>,
        slots: &[u32],
    ) -> Result<JobReport, SubmitError> {
        let (name, report) = self.shared.submit_task(direction, keys, slots)?;
        let _cancel = CancelOnDrop { shared: &self.shared, name };
        report.await.map_err(|_| SubmitError::Closed)
    }
}

/// Cancels what is queued when the task stops waiting; finds nothing to cancel when the job is finished.
struct CancelOnDrop<'a, E: TransferEngine, K: KeyMapper> {
    shared: &'a Shared<E, K>,
    name: JobName,
}

impl<E: TransferEngine, K: KeyMapper> Drop for CancelOnDrop<'_, E, K> {
    fn drop(&mut self) {
        self.shared.cancel(self.name);
    }
}

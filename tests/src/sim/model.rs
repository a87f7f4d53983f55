use std::collections::{BTreeMap, BTreeSet};

use kvtier_core::{Direction, JobId, Outcome, RequestId, TransferId, Verdict};

/// What is known about one block of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued { attempts: u8 },
    InFlight { attempts: u8 },
    Done,
    Failed,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) key: u8,
    pub(super) slot: u32,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) direction: Direction,
    pub(super) blocks: Vec<Block>,
    pub(super) is_cancelled: bool,
}

impl Job {
    fn is_running(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block.state, State::Queued { .. } | State::InFlight { .. }))
    }
}

/// What must be so, kept in the simplest way.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Accepted and not reported.
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) in_flight: BTreeMap<TransferId, (JobId, usize)>,
    pub(super) lost: BTreeSet<u32>,
    /// Keys whose object was ever there.
    pub(super) ever_there: BTreeSet<u8>,
    pub(super) verdicts: BTreeMap<(RequestId, u8), Verdict>,
    pub(super) reported: u64,
    pub(super) accepted: u64,
}

impl Model {
    pub(super) fn count(&self, is: impl Fn(&State) -> bool) -> usize {
        self.jobs.values().flat_map(|job| &job.blocks).filter(|block| is(&block.state)).count()
    }

    pub(super) fn running(&self) -> Vec<JobId> {
        self.jobs.iter().filter(|(_, job)| job.is_running()).map(|(id, _)| *id).collect()
    }

    /// Slots that some block still holds.
    pub(super) fn held(&self) -> BTreeSet<u32> {
        let blocks = self.jobs.values().flat_map(|job| &job.blocks);
        let held =
            blocks.filter(|block| matches!(block.state, State::Queued { .. } | State::InFlight { .. }));
        held.map(|block| block.slot).filter(|slot| !self.lost.contains(slot)).collect()
    }

    /// Whether a block's slot may be leased in this direction.
    pub(super) fn is_free(&self, slot: u32, direction: Direction) -> bool {
        if self.lost.contains(&slot) {
            return false;
        }
        self.jobs.values().all(|job| {
            let mut blocks = job.blocks.iter();
            !blocks.any(|block| {
                let is_held = matches!(block.state, State::Queued { .. } | State::InFlight { .. });
                let excludes = direction == Direction::Load || job.direction == Direction::Load;
                block.slot == slot && is_held && excludes
            })
        })
    }

    pub(super) fn cancel(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.is_cancelled = true;
        for block in &mut job.blocks {
            if matches!(block.state, State::Queued { .. }) {
                block.state = State::Cancelled;
            }
        }
    }

    /// A job's report: it was accepted and not reported before, and says of each block what became of it.
    pub(super) fn report(&mut self, id: JobId, outcomes: &[Outcome]) {
        let job = self.jobs.remove(&id);
        let job = job.unwrap_or_else(|| panic!("{id} was reported twice, or never accepted"));
        assert_eq!(job.blocks.len(), outcomes.len(), "{id}: one outcome for each block");
        for (block, outcome) in job.blocks.iter().zip(outcomes) {
            let expected = match outcome {
                Outcome::Done => State::Done,
                Outcome::Failed(_) => State::Failed,
                Outcome::Cancelled => State::Cancelled,
                Outcome::Skipped => panic!("{id}: nothing skips here"),
            };
            assert_eq!(block.state, expected, "{id}: {outcome:?} for {block:?}");
        }
        self.reported += 1;
    }
}

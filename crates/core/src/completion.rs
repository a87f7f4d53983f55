use std::fmt;

use crate::probe::ProbeId;
use crate::sync::{Mutex, Notify};
use crate::transfer::TransferId;
use crate::{Error, Lease, Presence};

/// What became of one transfer.
#[derive(Debug)]
pub struct Completion {
    /// The transfer's number.
    pub id: TransferId,
    /// The slot, given back; `None` if the engine may still touch it and it is quarantined.
    pub lease: Option<Lease>,
    /// Whether the block was moved.
    pub result: Result<(), Error>,
}

/// What became of one probe.
#[derive(Debug)]
pub struct Answer {
    /// The probe's number.
    pub id: ProbeId,
    /// Whether the object is there, or why nobody can say.
    pub result: Result<Presence, Error>,
}

/// Where finished transfers and probes are posted, from any thread, until the one consumer
/// takes them.
///
/// Posting never calls back into the consumer, so an engine can complete from a C++ callback or
/// inside `submit` and cannot deadlock or re-enter. The queue is bounded by what is in flight:
/// every entry was a [`Transfer`](crate::Transfer) or a [`Probe`](crate::Probe) before.
///
/// The tier owns one. Authors of engines make their own in tests:
///
/// ```
/// use kvtier_core::{Access, CompletionQueue, Direction, HostMemory, ObjectKey, Transfer, TransferId};
/// use std::sync::Arc;
///
/// let queue = Arc::new(CompletionQueue::default());
/// let memory = HostMemory::allocate(4096, 1)?;
/// let lease = memory.lease(0, Access::Write)?;
/// let key = ObjectKey::new("kv/a.bin")?;
/// let mut transfer = Transfer::new(TransferId(1), Direction::Load, key, lease, &queue);
///
/// // What an engine does:
/// transfer.copy_in(0, &[1; 4096]);
/// transfer.complete(Ok(()));
///
/// let done = queue.take();
/// assert!(done.transfers[0].result.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct CompletionQueue {
    posted: Mutex<Posted>,
    wake: Notify,
}

/// Everything that [`CompletionQueue::take`] found.
#[derive(Debug, Default)]
pub struct Posted {
    /// Finished transfers, in the order they were posted.
    pub transfers: Vec<Completion>,
    /// Finished probes, in the order they were posted.
    pub answers: Vec<Answer>,
}

impl Posted {
    fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.answers.is_empty()
    }
}

impl CompletionQueue {
    pub(crate) fn post_completion(&self, completion: Completion) {
        self.post(|posted| posted.transfers.push(completion));
    }

    pub(crate) fn post_answer(&self, answer: Answer) {
        self.post(|posted| posted.answers.push(answer));
    }

    fn post(&self, push: impl FnOnce(&mut Posted)) {
        let was_empty = {
            let mut posted = self.posted.lock();
            let was_empty = posted.is_empty();
            push(&mut posted);
            was_empty
        };
        // The consumer takes everything at once, so only the first entry needs to wake it.
        if was_empty {
            self.wake.notify_one();
        }
    }

    /// Wakes the consumer though nothing was posted.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Takes everything posted so far. Never waits.
    pub fn take(&self) -> Posted {
        std::mem::take(&mut *self.posted.lock())
    }

    /// Waits until something was posted since the last call that returned. May return though nothing
    /// is there: call [`take`](Self::take) in a loop. For one waiting task.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call returns at once.
    pub async fn posted(&self) {
        self.wake.notified().await;
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

#[cfg(all(test, kvtier_loom))]
mod loom_tests {
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    fn answer(id: u64) -> Answer {
        Answer { id: ProbeId(id), result: Ok(Presence::Absent) }
    }

    /// Takes until `count` answers have come, waiting in between as the tier's driver does. A wake-up that gets lost is a
    /// deadlock, which loom reports.
    fn consume(queue: &CompletionQueue, count: usize) {
        let mut seen = 0;
        while seen < count {
            seen += queue.take().answers.len();
            if seen < count {
                block_on(queue.posted());
            }
        }
    }

    /// In every order of two posting threads and the consumer, everything is taken and nobody waits for ever.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let queue = Arc::new(CompletionQueue::default());
            let threads = [1, 2].map(|id| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.post_answer(answer(id)))
            });
            consume(&queue, 2);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    /// The check is alive: a queue that wakes before it has pushed loses a wake-up, and loom finds it.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn loom_finds_a_lost_wake_up() {
        loom::model(|| {
            let queue = Arc::new(CompletionQueue::default());
            let other = Arc::clone(&queue);
            let thread = thread::spawn(move || {
                other.wake.notify_one();
                other.posted.lock().answers.push(answer(1));
            });
            consume(&queue, 1);
            thread.join().unwrap();
        });
    }
}

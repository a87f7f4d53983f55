use std::fmt;
use std::sync::Arc;

use crate::completion::{Answer, CompletionQueue};
use crate::{Error, ErrorKind, ObjectKey};

/// Whether an object is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is there.
    Present {
        /// Bytes of the object, where the engine learns them
        /// ([`Capabilities::reports_size`](crate::Capabilities::reports_size)).
        size_bytes: Option<u64>,
    },
    /// The store says that it is not there.
    Absent,
}

impl Presence {
    /// Whether the object is there.
    pub const fn is_present(self) -> bool {
        matches!(self, Self::Present { .. })
    }
}

/// The number of one probe; never used twice on one [`CompletionQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProbeId(pub u64);

/// One question "is this object in the store?", answered once.
///
/// # Contract
/// [`answer`](Self::answer) consumes the probe. A probe dropped without an answer answers
/// [`ErrorKind::Closed`], so that nobody waits for ever. An error is never answered as
/// [`Presence::Absent`].
pub struct Probe {
    id: ProbeId,
    key: ObjectKey,
    /// Taken by `answer`.
    queue: Option<Arc<CompletionQueue>>,
}

impl Probe {
    /// A probe that posts its answer to `queue`. The tier makes these; tests of engines may, too.
    pub fn new(id: ProbeId, key: ObjectKey, queue: &Arc<CompletionQueue>) -> Self {
        Self { id, key, queue: Some(Arc::clone(queue)) }
    }

    /// The object's name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Answers. Never blocks, callable from any thread.
    pub fn answer(mut self, result: Result<Presence, Error>) {
        self.post(result);
    }

    fn post(&mut self, result: Result<Presence, Error>) {
        if let Some(queue) = self.queue.take() {
            queue.post_answer(Answer { id: self.id, result });
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if self.queue.is_some() {
            let error =
                Error::new(ErrorKind::Closed, format!("the engine dropped the probe of {}", self.key));
            self.post(Err(error));
        }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("id", &self.id).field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer is posted once; a dropped probe answers `Closed` by itself.
    #[test]
    fn each_probe_answers_exactly_once() {
        let queue = Arc::new(CompletionQueue::default());
        let probe = |id| Probe::new(ProbeId(id), ObjectKey::new("a").unwrap(), &queue);
        probe(1).answer(Ok(Presence::Absent));
        drop(probe(2));
        let answers = queue.take().answers;
        assert_eq!(answers.iter().map(|answer| answer.id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(answers[0].result.as_ref().unwrap(), &Presence::Absent);
        assert_eq!(answers[1].result.as_ref().unwrap_err().kind(), ErrorKind::Closed);
    }
}

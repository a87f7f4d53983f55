use std::collections::VecDeque;

use crate::completion::{Completion, CompletionQueue};
use crate::job::Launch;
use crate::{Error, ErrorKind, Lease};

/// Blocks that the machine calls in flight and the engine does not have yet.
pub(super) struct Launches<'a> {
    pub(super) rest: VecDeque<Launch<Lease>>,
    pub(super) completions: &'a CompletionQueue,
}

impl Drop for Launches<'_> {
    /// Something panicked on the way: the blocks fail, instead of never ending.
    fn drop(&mut self) {
        for Launch { id, lease, .. } in self.rest.drain(..) {
            let error =
                Error::new(ErrorKind::Closed, "the tier's driver ended before the block reached the engine");
            self.completions.post_completion(Completion { id, lease: Some(lease), result: Err(error) });
        }
    }
}

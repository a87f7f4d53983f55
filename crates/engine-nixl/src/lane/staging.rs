use std::sync::Arc;

use kvtier_core::Error;

use crate::agent::Agent;
use crate::local::Staged;

/// The buffers of one agent, registered once and used again, within a budget.
pub(crate) struct Staging {
    idle: Vec<Staged>,
    /// Of all buffers, idle or in use.
    bytes: usize,
    bytes_max: usize,
}

impl Staging {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { idle: Vec::new(), bytes: 0, bytes_max }
    }

    /// A buffer of at least `bytes`; `None` if others must come back first. One buffer is always allowed.
    ///
    /// # Errors
    /// As [`Staged::new`].
    pub(crate) fn take(&mut self, agent: &Arc<Agent>, bytes: usize) -> Result<Option<Staged>, Error> {
        if let Some(at) = self.idle.iter().rposition(|buffer| buffer.len() >= bytes) {
            return Ok(Some(self.idle.swap_remove(at)));
        }
        // Those left are too small.
        while self.bytes + bytes > self.bytes_max
            && let Some(small) = self.idle.pop()
        {
            self.bytes -= small.len();
        }
        if self.bytes > 0 && self.bytes + bytes > self.bytes_max {
            return Ok(None);
        }
        let buffer = Staged::new(agent, bytes)?;
        self.bytes += bytes;
        Ok(Some(buffer))
    }

    pub(crate) fn put_back(&mut self, buffer: Option<Staged>) {
        self.idle.extend(buffer);
    }
}

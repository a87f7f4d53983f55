use std::sync::Arc;
use std::time::Instant;

use kvtier_core::{Error, Transfer};

use super::work::Work;
use crate::agent::Registration;
use crate::local::{Local, Staged};
use crate::request::Request;
use crate::verdict::{Canary, HEAD_BYTES, OVER_BYTES};

/// What a request is for.
pub(crate) enum Step {
    Store,
    /// Read the block, and `over` bytes more.
    Load {
        canary: Canary,
        over: usize,
        is_second: bool,
    },
    /// A small read, to see whether and what the store answers.
    Ask,
    /// The same after a store that failed with this error, because a failed write brings no reason with it.
    Diagnose(Error),
}

/// Who has the work while its request runs.
pub(crate) enum Owner {
    /// We do: it may be given up.
    Here(Work),
    /// Its slot is the request's memory.
    InRequest,
    /// It was given up and reported. The request holds a buffer of ours.
    GivenUp,
}

/// The work and the buffer of a request that does not run.
pub(crate) fn split(owner: Owner, local: Local) -> (Option<Work>, Option<Staged>) {
    match local {
        Local::Direct(transfer, _) => (Some(Work::Transfer(transfer)), None),
        Local::Staged(buffer) => match owner {
            Owner::Here(work) => (Some(work), Some(buffer)),
            Owner::InRequest | Owner::GivenUp => (None, Some(buffer)),
        },
    }
}

/// The object of a request: one of those that were registered together.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) batch: Arc<Registration>,
    pub(crate) index: usize,
}

/// A request that runs.
pub(crate) struct Posted {
    pub(crate) request: Request,
    pub(crate) owner: Owner,
    pub(crate) step: Step,
    pub(crate) bytes: usize,
    pub(crate) give_up: Instant,
    pub(crate) object: Object,
}

/// How far past a block of this size a staged read asks: also far enough that a refusal's code fits in the buffer.
pub(crate) fn over_bytes(block_bytes: usize) -> usize {
    OVER_BYTES.max(HEAD_BYTES.saturating_sub(block_bytes))
}

/// The host memory of a read, for what happens before and after its request.
pub(crate) enum Target<'a> {
    Buffer(&'a mut [u8]),
    Slot(&'a mut Transfer),
}

impl Target<'_> {
    pub(crate) fn of(local: &mut Local, bytes: usize) -> Target<'_> {
        match local {
            Local::Staged(staged) => Target::Buffer(&mut staged.bytes_mut()[..bytes]),
            Local::Direct(transfer, _) => Target::Slot(transfer),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Buffer(bytes) => bytes.len(),
            Self::Slot(transfer) => transfer.block_bytes(),
        }
    }

    fn write(&mut self, at: usize, from: &[u8]) {
        match self {
            Self::Buffer(bytes) => bytes[at..at + from.len()].copy_from_slice(from),
            Self::Slot(transfer) => transfer.copy_in(at, from),
        }
    }

    fn read(&self, at: usize, to: &mut [u8]) {
        match self {
            Self::Buffer(bytes) => to.copy_from_slice(&bytes[at..at + to.len()]),
            Self::Slot(transfer) => transfer.copy_out(at, to),
        }
    }

    /// Makes room for a refusal to be seen.
    pub(crate) fn clear_head(&mut self) {
        let head = self.len().min(HEAD_BYTES);
        self.write(0, &[0; HEAD_BYTES][..head]);
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = vec![0; self.len().min(HEAD_BYTES)];
        self.read(0, &mut head);
        head
    }

    pub(crate) fn mark_end(&mut self, canary: Canary, over: usize) {
        let mut tail = vec![0; Canary::covers(over, self.len())];
        canary.fill(&mut tail);
        self.write(self.len() - tail.len(), &tail);
    }

    pub(crate) fn untouched(&self, canary: Canary, over: usize) -> usize {
        let mut tail = vec![0; Canary::covers(over, self.len())];
        self.read(self.len() - tail.len(), &mut tail);
        canary.untouched(&tail)
    }
}

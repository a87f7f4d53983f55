use std::sync::Arc;

use kvtier_core::{Error, ErrorKind, Transfer};

use crate::agent::{Agent, Registration};
use crate::buffer::Buffer;
use crate::capi::{Memory, Region, Status};

/// A buffer of the engine's that its agent knows.
pub(crate) struct Staged {
    buffer: Buffer,
    /// Dropped before the buffer is freed or left behind: it holds the agent.
    registration: Registration,
}

impl Staged {
    /// A buffer of `bytes`, registered once.
    ///
    /// # Errors
    /// `Unavailable` if there is no memory for it, or NIXL does not take it.
    pub(crate) fn new(agent: &Arc<Agent>, bytes: usize) -> Result<Self, Error> {
        let failed = |why: String| Error::new(ErrorKind::Unavailable, why);
        let buffer = Buffer::zeroed(bytes)
            .ok_or_else(|| failed(format!("no memory for a staging buffer of {bytes} bytes")))?;
        let region = host_region(buffer.address(), bytes);
        let registration = Registration::new(agent, Memory::Host, vec![region])
            .map_err(|status| failed(format!("a staging buffer cannot be registered: {status}")))?;
        Ok(Self { buffer, registration })
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut()
    }
}

/// A descriptor of host memory.
pub(crate) fn host_region(address: usize, bytes: usize) -> Region {
    Region { address, bytes, device: 0, key: None }
}

/// The host memory of one request.
pub(crate) enum Local {
    /// The engine's own: whoever gives up leaves only this behind.
    Staged(Staged),
    /// The slot itself.
    Direct(Transfer, #[expect(dead_code, reason = "keeps the memory known to the agent")] Arc<Registration>),
}

impl Local {
    /// Where the bytes are. From now on a slot may be touched from outside Rust.
    pub(crate) fn address(&mut self) -> usize {
        match self {
            Self::Staged(staged) => staged.buffer.address(),
            Self::Direct(transfer, _) => transfer.expose().as_ptr().expose_provenance(),
        }
    }

    /// What must outlive NIXL's threads, without what would keep the agent alive.
    pub(crate) fn into_held(self) -> Held {
        match self {
            Self::Staged(Staged { buffer, registration }) => {
                drop(registration);
                Held::Buffer(buffer)
            }
            Self::Direct(transfer, _) => Held::Slot(transfer),
        }
    }
}

/// Memory that NIXL may touch until its agent has ended.
pub(crate) enum Held {
    Buffer(Buffer),
    /// Its report is withheld until then.
    Slot(Transfer),
}

impl Held {
    /// The agent has ended: nothing touches the memory any more.
    pub(crate) fn let_go(self) {
        match self {
            Self::Buffer(buffer) => drop(buffer),
            Self::Slot(transfer) => {
                let why = format!("the {} of {} ended with its agent", transfer.direction(), transfer.key());
                transfer.complete(Err(Error::new(ErrorKind::Unavailable, why)));
            }
        }
    }

    /// Nobody knows: kept for ever.
    pub(crate) fn leak(self) {
        std::mem::forget(self);
    }
}

/// Why a request could not be made, and its memory back.
pub(crate) type Refused = (Local, Status);

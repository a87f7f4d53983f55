use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use kvtier_core::{CompletionQueue, Error, HostMemory, ObjectKey, TransferEngine};

/// What the suite needs of an engine's author: engines, and another way to the same store.
///
/// # Contract
/// Every engine that [`open`](Self::open) makes reaches the store behind [`back_door`](Self::back_door), and no other
/// fixture uses the same [`prefix`](Self::prefix) at the same time.
#[async_trait]
pub trait Fixture: fmt::Debug + Send + Sync {
    /// A fresh engine. Each case has its own, and closes it.
    ///
    /// # Errors
    /// The case fails with it.
    async fn open(&self) -> Result<Box<dyn TransferEngine>, Error>;

    /// The store, reached without the engine.
    fn back_door(&self) -> &dyn BackDoor;

    /// What all names of the suite begin with, without a slash at the end. The suite deletes every object that it
    /// may have made under it.
    #[expect(clippy::unnecessary_literal_bound, reason = "others return a text of their own")]
    fn prefix(&self) -> &str {
        "kvtier-conformance"
    }

    /// A way to make the store fail; without it, cases that need one do not apply.
    fn faults(&self) -> Option<&dyn FaultControl> {
        None
    }

    /// Is shown the memory and the queue of each case before its first transfer. An honest engine needs neither; one that
    /// is planted to misbehave does.
    fn watch(&self, memory: &Arc<HostMemory>, queue: &Arc<CompletionQueue>) {
        let _ = (memory, queue);
    }
}

/// The store, behind the engine's back: it plants objects, and looks at what a store really wrote.
#[async_trait]
pub trait BackDoor: Send + Sync {
    /// Puts an object, also one that is no block.
    ///
    /// # Errors
    /// The case fails with it.
    async fn put(&self, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), Error>;

    /// The object's bytes, or `None` if there is no such object.
    ///
    /// # Errors
    /// The case fails with it.
    async fn get(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error>;

    /// Deletes an object, if it is there.
    ///
    /// # Errors
    /// The suite reports that it could not clean up.
    async fn delete(&self, key: &ObjectKey) -> Result<(), Error>;
}

/// What a store can be made to do to requests for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A load's answer ends in the middle.
    Cut,
    /// No answer ever.
    Stalled,
    /// Refused: fewer requests, please.
    Throttled,
    /// Refused: no right to.
    Denied,
    /// Failed on the store's side.
    Unavailable,
}

/// Makes the store fail.
#[async_trait]
pub trait FaultControl: Send + Sync {
    /// From now on every request for `key` has this fault; or only the next one, if `once`.
    async fn inject(&self, key: &ObjectKey, fault: Fault, once: bool);

    /// Nothing fails any more.
    async fn clear(&self);
}

//! An in-memory engine that does what it is told, in the order it is told: for tests and simulation.
//!
//! - [`MockEngine::manual`] holds every transfer and probe until a test says what becomes of each.
//! - A [`Schedule`] drives such an engine from a seed: the order, and the faults, are random but replayable.
//! - [`MockEngine::immediate`] performs everything inside `submit` and `lookup`;
//!   [`MockEngine::discard`] does so without moving a byte, to measure bookkeeping alone.
//!
//! The objects are in a [`MockStore`], which several engines can share and a test can look into and spoil.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kvtier_core::{
//!     Access, CompletionQueue, Direction, ErrorKind, HostMemory, ObjectKey, Transfer, TransferEngine, TransferId,
//! };
//! use kvtier_engine_mock::{MockEngine, MockStore, TransferEnd};
//!
//! let store = MockStore::default();
//! let engine = MockEngine::manual(&store);
//! store.insert(ObjectKey::new("here")?, vec![7; 4096]);
//!
//! // What the tier does.
//! let memory = HostMemory::allocate(4096, 2)?;
//! let queue = Arc::new(CompletionQueue::default());
//! let load = |id, key| -> Result<Transfer, Box<dyn std::error::Error>> {
//!     let lease = memory.lease(id, Access::Write)?;
//!     Ok(Transfer::new(TransferId(id.into()), Direction::Load, ObjectKey::new(key)?, lease, &queue))
//! };
//! engine.submit(vec![load(0, "here")?, load(1, "missing")?]);
//!
//! // What the test does: the second ends first.
//! assert_eq!(engine.pending_transfers().len(), 2);
//! engine.complete(TransferId(1), TransferEnd::Perform);
//! engine.complete(TransferId(0), TransferEnd::Perform);
//!
//! let done = queue.take().transfers;
//! assert_eq!(done[0].result.as_ref().unwrap_err().kind(), ErrorKind::NotFound);
//! assert!(done[1].result.is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod end;
mod engine;
mod schedule;
mod store;
#[cfg(test)]
mod tests;

pub use end::{ProbeEnd, TransferEnd};
pub use engine::{MockEngine, PendingTransfer};
pub use schedule::{Event, Fault, Faults, Schedule};
pub use store::MockStore;

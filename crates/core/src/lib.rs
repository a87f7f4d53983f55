//! The contract of kvtier: what engines, key layouts and callers of a secondary tier promise each other, and the tier
//! itself.
//!
//! An engine in a few lines, and a tier over it:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use kvtier_core::{
//!     Access, Capabilities, Direction, Error, ErrorKind, HostMemory, JobId, ObjectKey, OffloadKey, Presence, Probe,
//!     SecondaryTier, ShardedKeys, TierOptions, Transfer, TransferEngine,
//! };
//! use std::{collections::HashMap, sync::Mutex};
//!
//! #[derive(Debug)]
//! struct Shelf(Capabilities, Mutex<HashMap<ObjectKey, Vec<u8>>>);
//!
//! #[async_trait::async_trait]
//! impl TransferEngine for Shelf {
//!     fn capabilities(&self) -> &Capabilities {
//!         &self.0
//!     }
//!     async fn probe(&self) -> Result<(), Error> {
//!         Ok(())
//!     }
//!     fn lookup(&self, probes: Vec<Probe>) {
//!         for probe in probes {
//!             let size = self.1.lock().unwrap().get(probe.key()).map(|object| object.len() as u64);
//!             let present = |size| Presence::Present { size_bytes: Some(size) };
//!             probe.answer(Ok(size.map_or(Presence::Absent, present)));
//!         }
//!     }
//!     fn submit(&self, batch: Vec<Transfer>) {
//!         for mut transfer in batch {
//!             let mut shelf = self.1.lock().unwrap();
//!             let result = match (transfer.direction(), shelf.get(transfer.key())) {
//!                 (Direction::Store, _) => {
//!                     shelf.insert(transfer.key().clone(), transfer.to_vec());
//!                     Ok(())
//!                 }
//!                 (Direction::Load, None) => Err(Error::new(ErrorKind::NotFound, "not on the shelf")),
//!                 (Direction::Load, Some(object)) if object.len() != transfer.block_bytes() => {
//!                     Err(Error::new(ErrorKind::Corrupt, "not a block"))
//!                 }
//!                 (Direction::Load, Some(object)) => Ok(transfer.copy_in(0, object)),
//!             };
//!             drop(shelf);
//!             transfer.complete(result); // the last access to the slot
//!         }
//!     }
//!     async fn close(&self, _: Instant) {}
//! }
//!
//! let runtime = tokio::runtime::Runtime::new()?;
//! let memory = HostMemory::allocate(4096, 2)?;
//! let engine = Shelf(Capabilities::new("shelf"), Mutex::default());
//! let options = TierOptions::new(runtime.handle().clone());
//! let tier = SecondaryTier::new(engine, ShardedKeys::new("kv")?, memory.clone(), options)?;
//!
//! let key = OffloadKey::new(b"block hash", 0)?;
//! memory.lease(0, Access::Write)?.copy_in(0, &[7; 4096]);
//! tier.submit_store(JobId(1), vec![key], &[0])?;
//! tier.drain(Duration::from_secs(5))?;
//! tier.submit_load(JobId(2), vec![key], &[1])?;
//! tier.drain(Duration::from_secs(5))?;
//! assert!(tier.take_finished().iter().all(|report| report.is_success()));
//! assert_eq!(memory.lease(1, Access::Read)?.to_vec(), [7; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Words
//! - A **block** is what one object holds; all blocks of one [`HostMemory`] have one size. A **slot** is a block's place in it.
//! - An [`OffloadKey`] identifies a block's content; an [`ObjectKey`] is its object's name; a [`KeyMapper`] makes one from the other.
//! - A **store** moves a block from memory to the object store, a **load** the other way.
//! - A **job** is a set of (key, slot) pairs moved in one direction, reported once. A [`Transfer`] is one block of a job on its way, a [`Probe`]
//!   one question on its way.
//! - A [`TransferEngine`] performs transfers and answers probes; a [`SecondaryTier`] decides which and when.
//!
//! # Logs
//! `tracing` targets: `kvtier::job`, `kvtier::lookup`, `kvtier::memory`, and each engine's own.

mod completion;
mod engine;
mod error;
pub mod job;
pub mod key;
pub mod lookup;
mod memory;
mod probe;
mod sync;
mod tier;
mod time;
mod transfer;

pub use completion::{Answer, Completion, CompletionQueue, Posted};
pub use engine::{Capabilities, TransferEngine};
pub use error::{Error, ErrorKind, Retry};
pub use job::{JobId, JobReport, Outcome, RetryPolicy, SubmitError};
pub use key::{KeyMapper, ObjectKey, OffloadKey, ShardedKeys, VllmKeys};
pub use lookup::{RequestId, Verdict};
pub use memory::{Access, HostMemory, Lease, LeaseError, SlotLayout};
pub use probe::{Presence, Probe, ProbeId};
pub use tier::{Leftover, SecondaryTier, TierOptions, TierStats};
pub use transfer::{Direction, Transfer, TransferId};

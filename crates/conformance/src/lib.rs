//! What every kvtier engine must do, as a suite that engine authors run on theirs.
//!
//! An engine is tested through its trait alone, beside a [`BackDoor`] to the same store, which plants objects and looks at
//! what was really written. Cases are chosen by the engine's [`Capabilities`](kvtier_core::Capabilities); what does not
//! apply is counted as such, never as passed, and a run in which nothing applies is a failure.
//!
//! # Adopt it
//! The engine below is a whole one: it keeps its objects in a map, and performs everything at once. The suite
//! needs a [`Fixture`] for it, about ten lines, and a test:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Instant;
//!
//! use async_trait::async_trait;
//! use kvtier_conformance::{BackDoor, Fixture, Suite};
//! use kvtier_core::{
//!     Capabilities, Direction, Error, ErrorKind, ObjectKey, Presence, Probe, Transfer, TransferEngine,
//! };
//! use parking_lot::Mutex;
//!
//! type Objects = Arc<Mutex<HashMap<ObjectKey, Vec<u8>>>>;
//!
//! #[derive(Debug)]
//! struct MapEngine { objects: Objects, capabilities: Capabilities, is_closed: AtomicBool }
//!
//! impl MapEngine {
//!     fn check_open(&self) -> Result<(), Error> {
//!         let is_closed = self.is_closed.load(Ordering::Acquire);
//!         if is_closed { Err(Error::new(ErrorKind::Closed, "the engine is closed")) } else { Ok(()) }
//!     }
//!
//!     fn perform(&self, transfer: &mut Transfer) -> Result<(), Error> {
//!         self.check_open()?;
//!         let mut objects = self.objects.lock();
//!         match transfer.direction() {
//!             Direction::Store => drop(objects.insert(transfer.key().clone(), transfer.to_vec())),
//!             Direction::Load => {
//!                 let object = objects.get(transfer.key());
//!                 let object = object.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such object"))?;
//!                 if object.len() != transfer.block_bytes() {
//!                     return Err(Error::new(ErrorKind::Corrupt, "not one block"));
//!                 }
//!                 transfer.copy_in(0, object);
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! #[async_trait]
//! impl TransferEngine for MapEngine {
//!     fn capabilities(&self) -> &Capabilities { &self.capabilities }
//!     async fn probe(&self) -> Result<(), Error> { self.check_open() }
//!     fn lookup(&self, probes: Vec<Probe>) {
//!         for probe in probes {
//!             let size = self.objects.lock().get(probe.key()).map(|object| object.len() as u64);
//!             let presence = size.map_or(Presence::Absent, |size| Presence::Present { size_bytes: Some(size) });
//!             let answer = self.check_open().map(|()| presence);
//!             probe.answer(answer);
//!         }
//!     }
//!     fn submit(&self, batch: Vec<Transfer>) {
//!         for mut transfer in batch {
//!             let result = self.perform(&mut transfer);
//!             transfer.complete(result);
//!         }
//!     }
//!     async fn close(&self, _deadline: Instant) { self.is_closed.store(true, Ordering::Release); }
//! }
//!
//! // Adopting the suite begins here.
//! #[derive(Debug, Default)]
//! struct MapFixture(Objects);
//!
//! #[async_trait]
//! impl Fixture for MapFixture {
//!     async fn open(&self) -> Result<Box<dyn TransferEngine>, Error> {
//!         let mut capabilities = Capabilities::new("map");
//!         capabilities.keeps_metadata = false;
//!         Ok(Box::new(MapEngine { objects: self.0.clone(), capabilities, is_closed: AtomicBool::new(false) }))
//!     }
//!     fn back_door(&self) -> &dyn BackDoor { self }
//! }
//!
//! #[async_trait]
//! impl BackDoor for MapFixture {
//!     async fn put(&self, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), Error> {
//!         self.0.lock().insert(key.clone(), bytes);
//!         Ok(())
//!     }
//!     async fn get(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error> { Ok(self.0.lock().get(key).cloned()) }
//!     async fn delete(&self, key: &ObjectKey) -> Result<(), Error> {
//!         self.0.lock().remove(key);
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! // In a #[tokio::test]:
//! let report = Suite::default().run(&MapFixture::default()).await;
//! println!("{report}");
//! report.assert_success();
//! # });
//! ```
//!
//! With [`Fixture::faults`], the cases about stores that fail apply, too. For stores that the `object_store` crate reaches,
//! the feature `object-store` has a back door ready.
//!
//! # What holds in every case
//! Besides what its line says, each case checks at its end that every transfer and probe has ended once, that every slot is
//! free, that no slot was written after its transfer had ended (slots of stores keep their bytes, and so do slots that nobody
//! gave away), and that a close within the suite's patience leaves nothing running. Then it deletes its objects.

mod bench;
mod case;
mod cases;
mod fixture;
#[cfg(feature = "object-store")]
mod object_store;
mod options;
mod report;
mod suite;

#[cfg(feature = "object-store")]
pub use crate::object_store::ObjectStoreDoor;
pub use fixture::{BackDoor, Fault, FaultControl, Fixture};
pub use options::SuiteOptions;
pub use report::{CaseOutcome, CaseReport, Report};
pub use suite::Suite;

//! A secondary tier for LLM KV-cache blocks: moves them between host memory and an S3-compatible object store, without
//! blocking the scheduler, without touching a block after it said it was finished, and without handing back a block of
//! the wrong length. A changed byte is not noticed yet.
//!
//! ```
//! use std::time::Duration;
//! use kvtier::{Access, EngineKind, HostMemory, OffloadKey, SecondaryTier, ShardedKeys, TierOptions, TierRuntime};
//!
//! let runtime = TierRuntime::new()?;
//! let store = kvtier::open(EngineKind::ObjectStore, "memory://", &kvtier::serde_json::Map::new(), runtime.handle())?;
//! let memory = HostMemory::allocate(64 << 10, 16)?; // 16 slots of 64 KiB
//! let options = TierOptions::new(runtime.handle().clone());
//! let tier = SecondaryTier::new(store.engine, ShardedKeys::new(&store.prefix)?, memory.clone(), options)?;
//!
//! memory.lease(0, Access::Write)?.copy_in(0, &[7; 64 << 10]);
//! let key = OffloadKey::new(&[0xAB; 32], 0)?;
//! runtime.handle().block_on(async {
//!     assert!(tier.store(vec![key], &[0]).await?.is_success());
//!     assert!(tier.load(vec![key], &[1]).await?.is_success());
//!     Ok::<_, kvtier::SubmitError>(())
//! })?;
//! assert_eq!(memory.lease(1, Access::Read)?.to_vec(), [7; 64 << 10]);
//! tier.shutdown(Duration::from_secs(5))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A scheduler that polls uses the other front door of the same [`SecondaryTier`]: `lookup`, `submit_store`,
//! `submit_load`, `take_finished`, `end_step`, `finish_request`.
//!
//! # Features
//! - `object-store` (default): the reference engine, on the `object_store` crate.
//! - `nixl`: the production engine, on NIXL's OBJ plugin. Its build needs libclang and a C++ compiler.
//! - `mock`: the deterministic engine for tests and simulation.

mod open;
mod runtime;

pub use kvtier_core::*;
pub use open::{EngineKind, OpenStore, open};
pub use runtime::TierRuntime;
/// The type of a store's configuration is from here.
pub use serde_json;

/// The mock engine.
#[cfg(feature = "mock")]
pub use kvtier_engine_mock as mock;
/// The production engine.
#[cfg(feature = "nixl")]
pub use kvtier_engine_nixl as nixl;
/// The reference engine.
#[cfg(feature = "object-store")]
pub use kvtier_engine_object_store as object_store;

#[cfg(all(doctest, feature = "object-store"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

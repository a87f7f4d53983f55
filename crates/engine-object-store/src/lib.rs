//! kvtier's reference engine, on the [`object_store`] crate: S3 and what speaks its language, a local directory, memory.
//!
//! ```
//! use kvtier_core::TransferEngine;
//! use kvtier_engine_object_store::{ObjectStoreEngine, StoreConfig, StoreUrl};
//!
//! let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
//! let url: StoreUrl = "memory://".parse()?;
//! let engine = ObjectStoreEngine::open(&url, &StoreConfig::default(), runtime.handle().clone())?;
//! runtime.block_on(engine.probe())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Copies**: a load copies each piece of the object into the slot as it arrives; a store copies the block once, so that
//!   its slot is free of the HTTP stack at once.
//! - **Attempts**: one per request. The tier retries. (The HTTP client takes another connection when a pooled one turns
//!   out closed before a byte of the request was sent.)
//! - **Deadlines**: the transfer's, and `request_timeout`, whichever comes first; what is late is dropped. A store
//!   that was given up may still reach the store later: the body's copy is on its way.
//! - **Lookups**: a HEAD has no body, so a missing bucket looks like a missing object. Call
//!   [`probe`](kvtier_core::TransferEngine::probe) at start, which tells them apart.
//! - **Credentials**: given keys, or object_store's chain: environment variables, web identity, container,
//!   instance metadata; not `~/.aws`. Only credentials and region come from the environment, never the endpoint.
//! - **Proxies**: none; `HTTP_PROXY` and the like are not read, so that nothing in the environment moves the data's path.
//! - **TLS**: rustls with ring; the system's CA certificates, or those of `ca_bundle` alone.

mod block;
mod buffers;
mod classify;
mod credentials;
mod directory;
mod engine;
mod http;
mod names;
mod resolver;
mod s3;
mod tls;

pub use engine::ObjectStoreEngine;
pub use kvtier_store::{ConfigKey, ConfigUser, StoreConfig, StoreKind, StoreUrl};
pub use s3::s3_client;

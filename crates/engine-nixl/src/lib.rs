//! kvtier's production engine: S3 through the OBJ plugin of [NIXL](https://github.com/ai-dynamo/nixl), the plane that vLLM and
//! others use.
//!
//! ```no_run
//! use kvtier_core::TransferEngine;
//! use kvtier_engine_nixl::NixlEngine;
//! use kvtier_store::{StoreConfig, StoreUrl};
//!
//! let url: StoreUrl = "s3://kv/llama".parse()?;
//! let config = StoreConfig::from_pairs(["endpoint=http://127.0.0.1:9000", "access_key=a", "secret_key=b"])?;
//! let engine = NixlEngine::open(&url, &config)?;
//! let runtime = tokio::runtime::Runtime::new()?;
//! runtime.block_on(engine.probe())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The plugin ends a request of several objects at its first failure while the others still write, calls a short object
//! a success, writes error bodies into the block, and can cancel nothing. So the engine:
//!
//! - **Requests**: posts one request for each block. A block is finished exactly when its own request is.
//! - **Staging**: lets NIXL touch only buffers of its own, by default. A request that does not end holds a buffer, never a
//!   slot: deadlines and [`close`](kvtier_core::TransferEngine::close) are kept. With
//!   [`zero_copy`](kvtier_store::ConfigKey::ZeroCopy), NIXL gets the slots, and nothing in flight can be given up.
//! - **Right bytes**: reads past the block's end into a random pattern, which shows the object's length: short and empty
//!   objects are always seen, one that is a byte too long 255 times in 256, longer ones practically always. Zero copy sees
//!   no object that is too long. A changed byte of the right length is not seen here.
//! - **Attempts**: one per request; the SDK's own retries are off. The tier retries.
//! - **Reasons**: reads S3's error code from the body that a failed read leaves in the buffer. A failed store leaves none, so
//!   the engine then reads a little of the same object, and reports what that says; a store that alone is forbidden is
//!   `Unavailable`.
//! - **Lookups**: are small reads, not HEADs, so a missing bucket or a refused key is never taken for an absent object.
//! - **Stuck threads**: when requests that were given up hold all threads of an agent, it is replaced; see
//!   [`NixlEngine::health`].
//! - **Credentials**: given keys, or the AWS SDK's default chain. They are fixed when the engine is opened.
//!
//! The library is found at run time; see [`nixl_library`](kvtier_store::ConfigKey::NixlLibrary).

mod agent;
mod buffer;
mod capi;
mod engine;
mod lane;
mod local;
mod params;
mod request;
mod verdict;

pub use engine::{NixlEngine, NixlHealth};
pub use kvtier_store::{ConfigKey, StoreConfig, StoreKind, StoreUrl};

//! What kvtier's engines share about stores: the URL, the configuration, the endpoint, and what S3's error codes mean.
//!
//! ```
//! use kvtier_store::{Endpoint, StoreConfig, StoreUrl};
//!
//! let url: StoreUrl = "s3://kv/llama".parse()?;
//! let config = StoreConfig::from_pairs(["endpoint=127.0.0.1:9000", "region=eu-1"])?;
//! assert_eq!(Endpoint::resolve(&config, "kv", "eu-1")?.url, "http://127.0.0.1:9000");
//! assert_eq!(url.prefix(), "llama");
//! # Ok::<(), kvtier_core::Error>(())
//! ```

mod config;
mod config_key;
mod endpoint;
mod refusal;
mod store_url;

pub use config::{Checksum, Credentials, Environment, Scheme, Settings, StoreConfig, config_error};
pub use config_key::{ConfigKey, ConfigUser};
pub use endpoint::Endpoint;
pub use refusal::{error_code, judge_code};
pub use store_url::{StoreKind, StoreUrl};

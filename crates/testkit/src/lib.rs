//! S3 servers on loopback for kvtier's tests and benches.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! use kvtier_testkit::S3Server;
//!
//! let server = S3Server::start().await?;
//! println!("serving bucket {} at {}", server.bucket(), server.endpoint());
//!
//! // A test may put a damaged object behind the client's back, and count what the client asked for.
//! server.store().insert(server.bucket(), "short", "only half");
//! assert_eq!(server.store().keys(server.bucket()), ["short"]);
//! assert_eq!(server.requests().total(), 0);
//!
//! server.shutdown().await;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! - [`S3Server`] checks what S3 checks and keeps its objects in memory.
//! - [`NullServer`] checks and keeps nothing: the limit for benches.
//! - [`StalledServer`] accepts requests and never answers.
//! - [`FaultProxy`] stands before any of them and misbehaves.
//! - [`TlsProxy`] puts TLS before any of them.
//! - [`CephRgw`] is a real store of production, from Debian's packages.
//!
//! All of them listen on 127.0.0.1, on a free port unless told otherwise. The program `kvtier-s3` runs the first two
//! as a process, so that a bench client does not share worker threads with them.

mod ceph;
mod fault;
mod listener;
mod null;
mod requests;
mod s3;
mod stalled;
mod tls;

pub use ceph::CephRgw;
pub use fault::{Fault, FaultProxy, FaultRates, FaultRule};
pub use null::{NullOptions, NullServer};
pub use requests::RequestCounts;
pub use s3::{EtagSource, S3Options, S3Server, Store};
pub use stalled::{Stall, StalledServer};
pub use tls::TlsProxy;

//! Host memory: slots of one size, and the leases that say who may touch them.
//!
//! All access to slot bytes is in this module. The memory may be shared with C++, a GPU driver
//! or other processes, so no Rust reference into a slot ever exists: bytes are copied in and
//! out through raw pointers while a [`Lease`] is held.
//!
//! ```
//! use kvtier_core::{Access, HostMemory};
//!
//! let memory = HostMemory::allocate(4096, 8)?;
//! let mut lease = memory.lease(3, Access::Write)?;
//! lease.copy_in(0, &[7; 4096]);
//! assert!(memory.lease(3, Access::Read).is_err(), "one writer, nobody else");
//! drop(lease);
//!
//! let lease = memory.lease(3, Access::Read)?;
//! assert_eq!(lease.to_vec(), [7; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![expect(unsafe_code, reason = "the one place of this crate that touches slot memory")]

mod host_memory;
mod lease;

pub use host_memory::{HostMemory, SlotLayout};
pub use lease::{Access, Lease, LeaseError};

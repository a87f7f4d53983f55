//! The engine with the real NIXL against S3 servers on loopback. `cargo xtask nixl` provides the library.

mod rig;
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "test code")]

mod round_trip;

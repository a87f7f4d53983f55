//! The engine with the real NIXL against S3 servers on loopback. `cargo xtask nixl` provides the library.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and measures time"
)]

mod hostile;
mod interop;
mod rig;
mod round_trip;
mod tls;

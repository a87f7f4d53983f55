//! The object_store engine against real servers on loopback: one that keeps the rules, and peers that break them.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as tests do")]

mod bench;
mod close;
mod hostile;
mod lookup;
mod peer;
mod probe;
mod round_trip;
mod tls;

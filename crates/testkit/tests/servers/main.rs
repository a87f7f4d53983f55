//! Drives the servers with the `object_store` client and, where that cannot misbehave enough, with raw TCP.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod client;
mod conditions;
mod fault;
mod http;
mod integrity;
mod lifecycle;
mod listing;
mod null;
mod objects;
mod process;
mod stalled;
mod wire;

//! Replays a trace: a primary tier in memory with LRU eviction, in front of a real secondary tier.
//!
//! What a serving engine would compute is made up from the block's key, so every block that comes back
//! from the store is checked byte for byte.

mod content;
mod primary;
mod report;
mod runner;

pub(crate) use report::{Report, Setup};
pub(crate) use runner::{Runner, Tier};

//! Lookups for schedulers: is this block in the store?

mod table;

pub use table::{LookupCounts, LookupLimits, LookupTable, RequestId, Verdict};

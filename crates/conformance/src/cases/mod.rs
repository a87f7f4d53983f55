//! The cases, by group. Letters in comments name the behaviours of vLLM's own tests that a case carries over.

mod failure;
mod lifecycle;
mod lookup;
mod names;
mod ownership;
mod round_trip;

use crate::case::Case;

/// Every case, in the order in which they run: what others rely on comes first.
pub(crate) const CASES: [&[Case]; 6] =
    [round_trip::CASES, ownership::CASES, failure::CASES, lookup::CASES, names::CASES, lifecycle::CASES];

//! What can be wrong with a trace.

use std::{io, path::PathBuf};

use thiserror::Error;

use super::{BLOCK_TOKENS, MAX_LINE_BYTES};

/// Why a trace cannot be read. A reader ends after the first one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file is missing or may not be read.
    #[error("cannot open the trace `{}`", path.display())]
    Open {
        /// The path as the caller gave it.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Reading failed in the middle.
    #[error("{name}, line {line}: cannot read")]
    Read {
        /// The trace's name.
        name: String,
        /// The line that could not be read, counted from 1.
        line: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// A line is not a request.
    #[error("{name}, line {line}: {problem}")]
    Line {
        /// The trace's name.
        name: String,
        /// The line, counted from 1; empty lines count.
        line: u64,
        /// What is wrong with it.
        problem: LineProblem,
    },
}

/// What is wrong with one line of a trace.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum LineProblem {
    /// The line holds bytes that are not UTF-8.
    #[error("not UTF-8 at byte {column}")]
    NotUtf8 {
        /// The first bad byte, counted from 1.
        column: usize,
    },
    /// The line has more than [`MAX_LINE_BYTES`] bytes.
    #[error("longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// The line is not JSON.
    #[error("not JSON: {reason} at column {column}")]
    NotJson {
        /// What the parser said.
        reason: String,
        /// Where it said so, counted from 1.
        column: usize,
    },
    /// The line ends before its JSON does, as at the end of a file that was cut.
    #[error("cut short: the line ends in the middle of its JSON")]
    CutShort,
    /// The line is JSON, but not an object.
    #[error("expected a JSON object, found {found}")]
    NotObject {
        /// The JSON type that is there instead.
        found: &'static str,
    },
    /// A field is not there.
    #[error("the field `{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field has the wrong JSON type.
    #[error("`{field}` must be {expected}, found {found}")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// The JSON type that is there instead.
        found: &'static str,
    },
    /// A number is below zero.
    #[error("`{field}` is negative: {value}")]
    Negative {
        /// The field.
        field: &'static str,
        /// The number as it was read.
        value: String,
    },
    /// A number has a fraction, or does not fit 64 bits.
    #[error("`{field}` must be a whole number below 2^64, found {value}")]
    NotWhole {
        /// The field.
        field: &'static str,
        /// The number as it was read.
        value: String,
    },
    /// `hash_ids` does not cover `input_length`, so the trace has another block size or is damaged.
    #[error(
        "`hash_ids` has {found} blocks, but {input_length} input tokens take {expected} of {BLOCK_TOKENS} tokens"
    )]
    BlockCount {
        /// The tokens of the prompt.
        input_length: u64,
        /// `input_length / BLOCK_TOKENS`, rounded up.
        expected: u64,
        /// The ids that are there.
        found: u64,
    },
    /// A block is named twice in one request. An id stands for its whole prefix, so this cannot be.
    #[error("`hash_ids` names block {id} twice")]
    RepeatedBlock {
        /// The block.
        id: u64,
    },
    /// The request comes before the one on the line above. Replay in real time needs the order.
    #[error("`timestamp` goes back from {previous} to {timestamp}; the lines must be sorted by time")]
    OutOfOrder {
        /// This line's timestamp, in milliseconds.
        timestamp: u64,
        /// The timestamp of the request before it, in milliseconds.
        previous: u64,
    },
}

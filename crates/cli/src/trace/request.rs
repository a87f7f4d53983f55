//! One request of a trace.

use std::{
    collections::HashSet,
    io::{self, Write},
};

use serde::Serialize;
use serde_json::{Map, Value, error::Category};

use super::LineProblem;

/// Tokens in one block of a trace; the last block of a request may hold fewer.
pub const BLOCK_TOKENS: u64 = 512;

/// One request: when it comes, how long it is, and which blocks its prompt consists of.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Request {
    /// When the request arrives, in milliseconds from the start of the trace.
    #[serde(rename = "timestamp")]
    pub timestamp_ms: u64,
    /// Tokens in the prompt.
    pub input_length: u64,
    /// Tokens that the model writes in answer.
    pub output_length: u64,
    /// The blocks of the prompt in order, each [`BLOCK_TOKENS`] tokens but the last, which may be shorter. An id
    /// stands for the block and everything before it.
    pub hash_ids: Vec<u64>,
}

impl Request {
    /// Reads one line, with or without its line end. Fields that are not part of the format are ignored.
    ///
    /// # Errors
    /// Says what is wrong with the line. The order of timestamps is not looked at here: that takes two lines.
    pub fn parse(line: &[u8]) -> Result<Self, LineProblem> {
        let text = std::str::from_utf8(line)
            .map_err(|error| LineProblem::NotUtf8 { column: error.valid_up_to() + 1 })?;
        let fields = match serde_json::from_str(text).map_err(|error| json_problem(&error))? {
            Value::Object(fields) => fields,
            other => return Err(LineProblem::NotObject { found: type_name(&other) }),
        };
        let request = Self {
            timestamp_ms: number(&fields, "timestamp")?,
            input_length: number(&fields, "input_length")?,
            output_length: number(&fields, "output_length")?,
            hash_ids: numbers(&fields, "hash_ids")?,
        };
        request.check_blocks()?;
        Ok(request)
    }

    /// Writes the request as one line of JSON, line end included.
    ///
    /// # Errors
    /// What `writer` says.
    pub fn write_line(&self, mut writer: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut writer, self)?;
        writer.write_all(b"\n")
    }

    fn check_blocks(&self) -> Result<(), LineProblem> {
        let expected = self.input_length.div_ceil(BLOCK_TOKENS);
        let found = self.hash_ids.len() as u64;
        if found != expected {
            return Err(LineProblem::BlockCount { input_length: self.input_length, expected, found });
        }
        let mut seen = HashSet::with_capacity(self.hash_ids.len());
        match self.hash_ids.iter().find(|id| !seen.insert(**id)) {
            Some(id) => Err(LineProblem::RepeatedBlock { id: *id }),
            None => Ok(()),
        }
    }
}

fn number(fields: &Map<String, Value>, field: &'static str) -> Result<u64, LineProblem> {
    whole(field, fields.get(field).ok_or(LineProblem::Missing { field })?)
}

fn numbers(fields: &Map<String, Value>, field: &'static str) -> Result<Vec<u64>, LineProblem> {
    match fields.get(field).ok_or(LineProblem::Missing { field })? {
        Value::Array(values) => values.iter().map(|value| whole(field, value)).collect(),
        other => {
            let expected = "an array of whole numbers";
            Err(LineProblem::WrongType { field, expected, found: type_name(other) })
        }
    }
}

fn whole(field: &'static str, value: &Value) -> Result<u64, LineProblem> {
    let Value::Number(number) = value else {
        return Err(LineProblem::WrongType { field, expected: "a whole number", found: type_name(value) });
    };
    if let Some(whole) = number.as_u64() {
        return Ok(whole);
    }
    let value = number.to_string();
    Err(if value.starts_with('-') {
        LineProblem::Negative { field, value }
    } else {
        LineProblem::NotWhole { field, value }
    })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn json_problem(error: &serde_json::Error) -> LineProblem {
    if error.classify() == Category::Eof {
        return LineProblem::CutShort;
    }
    // The parser sees one line only, so its own "at line 1" would contradict the line number of the trace.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    LineProblem::NotJson { reason, column: error.column() }
}

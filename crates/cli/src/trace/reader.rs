//! Reads a trace line by line.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use super::{LineProblem, Request, TraceError};

/// The longest line that is read, in bytes without its line end. A prompt of one million tokens takes about 43 kB.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// An iterator over the requests of a trace. It holds one line at a time, skips empty lines, wants the requests
/// sorted by time, and ends after the first error.
#[derive(Debug)]
pub struct TraceReader<R> {
    reader: R,
    name: String,
    line: Vec<u8>,
    line_number: u64,
    read_bytes: u64,
    previous_ms: u64,
    ended: bool,
}

impl TraceReader<BufReader<File>> {
    /// Opens a file. Errors about its lines start with `path`.
    ///
    /// # Errors
    /// [`TraceError::Open`] if the file is missing or may not be read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        Ok(Self::new(BufReader::new(file), path.display().to_string()))
    }
}

impl<R: BufRead> TraceReader<R> {
    /// Reads from `reader`; errors start with `name`.
    pub fn new(reader: R, name: impl Into<String>) -> Self {
        Self {
            reader,
            name: name.into(),
            line: Vec::new(),
            line_number: 0,
            read_bytes: 0,
            previous_ms: 0,
            ended: false,
        }
    }

    /// Bytes read so far, line ends included.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        while self.read_line()? {
            if self.line_is_too_long() || !self.line.trim_ascii().is_empty() {
                return self.parse_line().map(Some).map_err(|problem| TraceError::Line {
                    name: self.name.clone(),
                    line: self.line_number,
                    problem,
                });
            }
        }
        Ok(None)
    }

    /// Reads the next line into `self.line`; false at the end. One byte more than a line may have is enough to see
    /// that it has too many.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.line_number += 1;
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read =
            self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line).map_err(|source| {
                TraceError::Read { name: self.name.clone(), line: self.line_number, source }
            })?;
        self.read_bytes += read as u64;
        Ok(read > 0)
    }

    fn line_is_too_long(&self) -> bool {
        self.line.len() > MAX_LINE_BYTES && !self.line.ends_with(b"\n")
    }

    fn parse_line(&mut self) -> Result<Request, LineProblem> {
        if self.line_is_too_long() {
            return Err(LineProblem::TooLong);
        }
        let request = Request::parse(&self.line)?;
        let (timestamp, previous) = (request.timestamp_ms, self.previous_ms);
        if timestamp < previous {
            return Err(LineProblem::OutOfOrder { timestamp, previous });
        }
        self.previous_ms = timestamp;
        Ok(request)
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.next_request().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

#[cfg(test)]
mod tests;

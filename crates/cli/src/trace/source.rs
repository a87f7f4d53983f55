//! Where a command takes its requests from.

use std::{
    fs::File,
    io::{self, BufReader, Stdin},
    path::Path,
};

use super::{Generator, GeneratorOptions, Request, TraceError, TraceReader};

/// The requests that a command works on: a file, standard input or a generated workload, up to a limit.
#[derive(Debug)]
pub struct TraceSource {
    requests: Requests,
    description: String,
    taken: u64,
    limit: Option<u64>,
}

#[derive(Debug)]
enum Requests {
    File { reader: TraceReader<BufReader<File>>, length_bytes: u64 },
    Stdin(TraceReader<BufReader<Stdin>>),
    Generated(Box<Generator>),
}

impl TraceSource {
    /// Reads the file at `path`, or standard input if it is `-`, up to `limit` requests.
    ///
    /// # Errors
    /// [`TraceError::Open`] if the file is missing or may not be read.
    pub fn open(path: &Path, limit: Option<u64>) -> Result<Self, TraceError> {
        let (requests, description) = if path.as_os_str() == "-" {
            let name = "standard input";
            (Requests::Stdin(TraceReader::new(BufReader::new(io::stdin()), name)), name.to_owned())
        } else {
            // A length that is not known, or is 0 as for a pipe, only means that there is no progress to show.
            let length_bytes = path.metadata().map_or(0, |metadata| metadata.len());
            (Requests::File { reader: TraceReader::open(path)?, length_bytes }, path.display().to_string())
        };
        Ok(Self { requests, description, taken: 0, limit })
    }

    /// Generates a workload.
    pub fn generated(options: GeneratorOptions) -> Self {
        Self {
            requests: Requests::Generated(Box::new(Generator::new(options))),
            description: format!("generated workload, seed {}", options.seed),
            taken: 0,
            limit: Some(options.requests),
        }
    }

    /// What the requests are, for people: the path, or `generated workload, seed 7`.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// How far the source is, as (done, total): requests if their number is limited, else bytes of the file. `None`
    /// if the total is not known.
    pub fn progress(&self) -> Option<(u64, u64)> {
        match (&self.requests, self.limit) {
            (_, Some(limit)) => Some((self.taken, limit)),
            (Requests::File { reader, length_bytes }, None) if *length_bytes > 0 => {
                Some((reader.read_bytes(), *length_bytes))
            }
            _ => None,
        }
    }
}

impl Iterator for TraceSource {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.limit.is_some_and(|limit| self.taken >= limit) {
            return None;
        }
        self.taken += 1;
        match &mut self.requests {
            Requests::File { reader, .. } => reader.next(),
            Requests::Stdin(reader) => reader.next(),
            Requests::Generated(generator) => generator.next().map(Ok),
        }
    }
}

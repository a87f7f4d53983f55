//! Any bytes as a trace: read to the end or refused, never a panic; what was read comes back the same when written.
#![no_main]

use kvtier_cli::trace::{Request, TraceReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for request in TraceReader::new(bytes, "fuzzed") {
        let Ok(request) = request else { break };
        let mut line = Vec::new();
        request.write_line(&mut line).unwrap();
        assert_eq!(Request::parse(&line).unwrap(), request);
    }
});

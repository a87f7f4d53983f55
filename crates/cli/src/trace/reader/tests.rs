use std::io::{self, BufReader, Cursor};

use super::*;

const GOOD: &str = r#"{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [0, 1]}"#;

fn read(trace: impl AsRef<[u8]>) -> Result<Vec<Request>, TraceError> {
    TraceReader::new(trace.as_ref(), "trace").collect()
}

/// Reads a good line, an empty one and `line`, and checks that the error is about line 3. Returns what is wrong.
fn problem(line: impl AsRef<[u8]>) -> LineProblem {
    let trace = [GOOD.as_bytes(), b"\n\n", line.as_ref(), b"\n", GOOD.as_bytes()].concat();
    let mut reader = TraceReader::new(trace.as_slice(), "trace");
    reader.next().expect("line 1").expect("line 1 is good");
    match reader.next().expect("line 3") {
        Err(TraceError::Line { name, line: 3, problem }) if name == "trace" => {
            assert!(reader.next().is_none(), "a reader ends after its first error");
            problem
        }
        other => panic!("expected an error on line 3, got {other:?}"),
    }
}

/// A request line with one part replaced by another.
fn with(part: &str, other: &str) -> String {
    let line = GOOD.replace(part, other);
    assert_ne!(line, GOOD);
    line
}

/// Fields come through; empty lines, CRLF, unknown fields, another field order and no newline at the end are fine.
#[test]
fn good_lines() {
    let reordered =
        r#"{"x": {"y": [null]}, "hash_ids": [], "output_length": 0, "input_length": 0, "timestamp": 5}"#;
    let requests = read(format!("\n{GOOD}\r\n \t\r\n\n{reordered}")).expect("a good trace");
    let first = Request { timestamp_ms: 5, input_length: 600, output_length: 3, hash_ids: vec![0, 1] };
    let second = Request { input_length: 0, output_length: 0, hash_ids: vec![], ..first.clone() };
    assert_eq!(requests, [first, second]);
}

/// A trace without requests is good.
#[test]
fn no_lines() {
    assert_eq!(read("").expect("empty"), []);
    assert_eq!(read("\n \n").expect("blank"), []);
}

/// What is written is read back.
#[test]
fn written_lines_come_back() {
    let request = Request {
        timestamp_ms: u64::MAX,
        input_length: 513,
        output_length: u64::MAX,
        hash_ids: vec![u64::MAX, 0],
    };
    let mut line = Vec::new();
    request.write_line(&mut line).expect("memory takes it");
    assert_eq!(read(line).expect("a good line"), [request]);
}

/// A line that is not JSON says where, without the parser's own line number.
#[test]
fn not_json() {
    let problem = problem("timestamp,input_length");
    assert!(matches!(problem, LineProblem::NotJson { column: 2, .. }), "{problem:?}");
    assert!(!problem.to_string().contains("line 1"), "{problem}");
}

/// Two objects on one line are not one request.
#[test]
fn two_objects_on_a_line() {
    assert!(matches!(problem(format!("{GOOD} {GOOD}")), LineProblem::NotJson { .. }));
}

/// A JSON value that is no object is named.
#[test]
fn not_an_object() {
    assert_eq!(problem("[1, 2]"), LineProblem::NotObject { found: "an array" });
    assert_eq!(problem("17"), LineProblem::NotObject { found: "a number" });
}

/// Every field is needed, and named when it is not there.
#[test]
fn missing_field() {
    for field in ["timestamp", "input_length", "output_length", "hash_ids"] {
        assert_eq!(problem(with(field, "other")), LineProblem::Missing { field });
    }
}

/// A number below zero is called negative, whole or not, whichever field it is in.
#[test]
fn negative_number() {
    let negative = |field, value: &str| LineProblem::Negative { field, value: value.to_owned() };
    assert_eq!(problem(with("5", "-5")), negative("timestamp", "-5"));
    assert_eq!(problem(with("5", "-0.5")), negative("timestamp", "-0.5"));
    assert_eq!(problem(with("600", "-600")), negative("input_length", "-600"));
    assert_eq!(problem(with("[0", "[-7")), negative("hash_ids", "-7"));
}

/// Fractions and numbers past 64 bits are refused.
#[test]
fn not_a_whole_number() {
    assert!(matches!(problem(with("5", "5.5")), LineProblem::NotWhole { field: "timestamp", .. }));
    let line = with("3", "18446744073709551616");
    assert!(matches!(problem(line), LineProblem::NotWhole { field: "output_length", .. }));
}

/// A field of the wrong type is named with the type that is there.
#[test]
fn wrong_type() {
    let text = "`timestamp` must be a whole number, found a string";
    assert_eq!(problem(with("5", "\"5\"")).to_string(), text);
    assert!(matches!(problem(with("600", "null")), LineProblem::WrongType { field: "input_length", .. }));
    assert!(matches!(problem(with("[0, 1]", "2")), LineProblem::WrongType { field: "hash_ids", .. }));
    assert!(matches!(problem(with("[0", "[[]")), LineProblem::WrongType { field: "hash_ids", .. }));
}

/// A last line that was cut is an error at every length, and never a request with a wrong number.
#[test]
fn truncated_last_line() {
    for length in 1..GOOD.len() {
        let trace = format!("{GOOD}\n{}", &GOOD[..length]);
        let error = read(trace).expect_err("cut short");
        assert!(
            matches!(error, TraceError::Line { line: 2, problem: LineProblem::CutShort, .. }),
            "cut after {length} bytes: {error:?}"
        );
    }
}

/// Bytes that are not UTF-8, as in a compressed file, are refused with their place.
#[test]
fn not_utf8() {
    assert_eq!(problem(b"{\"a\": \"\xff\"}"), LineProblem::NotUtf8 { column: 8 });
}

/// The ids must cover the prompt: no block too few and none too many.
#[test]
fn blocks_that_do_not_cover_the_prompt() {
    for (input_length, expected) in [(512, 1), (1_025, 3)] {
        let line = with("600", &input_length.to_string());
        assert_eq!(problem(line), LineProblem::BlockCount { input_length, expected, found: 2 });
    }
}

/// One block cannot be in a prompt twice.
#[test]
fn repeated_block() {
    assert_eq!(problem(with("[0, 1]", "[7, 7]")), LineProblem::RepeatedBlock { id: 7 });
}

/// Time does not run backwards; the same time again is fine, as `good_lines` shows.
#[test]
fn out_of_order() {
    assert_eq!(problem(with("5", "4")), LineProblem::OutOfOrder { timestamp: 4, previous: 5 });
}

/// A line of exactly the limit is read and one byte more is refused, with and without a line end.
#[test]
fn line_length_limit() {
    let padded = |length: usize| format!("{GOOD}{}", " ".repeat(length - GOOD.len()));
    for end in ["", "\n"] {
        let requests = read(padded(MAX_LINE_BYTES) + end).expect("as long as allowed");
        assert_eq!(requests.len(), 1);
        let error = read(padded(MAX_LINE_BYTES + 1) + end).expect_err("too long");
        assert!(
            matches!(error, TraceError::Line { line: 1, problem: LineProblem::TooLong, .. }),
            "{error:?}"
        );
    }
}

/// A line without end is refused without reading all of it.
#[test]
fn endless_line_is_not_held() {
    let mut reader = TraceReader::new(BufReader::new(io::repeat(b' ')), "trace");
    assert!(reader.next().expect("an error").is_err());
    assert_eq!(reader.read_bytes(), MAX_LINE_BYTES as u64 + 1);
}

/// Deep nesting in a field that nobody asked for is an error, not a stack overflow.
#[test]
fn deep_nesting() {
    let line = format!("{{\"x\": {}", "[".repeat(100_000));
    assert!(matches!(problem(line), LineProblem::NotJson { .. }));
}

/// A missing file is named in the error.
#[test]
fn missing_file() {
    let error = TraceReader::open(Path::new("no/such/trace.jsonl")).expect_err("missing");
    assert_eq!(error.to_string(), "cannot open the trace `no/such/trace.jsonl`");
}

/// An error while reading says at which line, and is not taken for the end of the trace.
#[test]
fn read_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let trace = BufReader::new(Cursor::new(format!("{GOOD}\n")).chain(Broken));
    let mut reader = TraceReader::new(trace, "trace");
    reader.next().expect("line 1").expect("line 1 is good");
    let error = reader.next().expect("line 2").expect_err("unplugged");
    assert!(matches!(error, TraceError::Read { line: 2, .. }), "{error:?}");
}

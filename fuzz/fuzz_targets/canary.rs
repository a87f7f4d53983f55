//! A planted bug, six bytes deep, to see that the fuzzer is alive: it must be found, step by step, within its budget.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [b'k', b'v', b't', b'i', b'e', b'r', ..] = bytes {
        panic!("the canary was found");
    }
});

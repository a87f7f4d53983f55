//! Any bytes as a block's key: taken or refused, and what is taken comes back as the same bytes; two keys are equal when their
//! bytes are.
#![no_main]

use kvtier_core::OffloadKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8], u32)| {
    let (first, second, group) = input;
    let made = OffloadKey::new(first, group);
    if let Ok(key) = made {
        assert_eq!((key.hash(), key.group()), (first, group));
    }
    let keys = [first, second].map(|wire| OffloadKey::from_wire(wire).ok());
    if let [Some(a), Some(b)] = keys {
        assert_eq!(a == b, first == second, "keys and their bytes disagree");
        assert_eq!(OffloadKey::new(a.hash(), a.group()).unwrap(), a);
    }
});

//! Any bytes as a key and any text as a name: mappers and their inverses agree, or refuse.
#![no_main]

use kvtier_core::key::VllmNamespace;
use kvtier_core::{KeyMapper, ObjectKey, OffloadKey, ShardedKeys, VllmKeys};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &str, &str)| {
    let (wire, prefix, name) = input;
    let vllm = VllmNamespace { prefix: prefix.into(), ..VllmNamespace::new("org/model", "bfloat16") };
    let mappers: [Option<Box<dyn KeyMapper>>; 2] = [
        ShardedKeys::new(prefix).ok().map(|keys| Box::new(keys) as _),
        VllmKeys::new(&vllm).ok().map(|keys| Box::new(keys) as _),
    ];
    for mapper in mappers.into_iter().flatten() {
        if let Ok(key) = OffloadKey::from_wire(wire) {
            let object = mapper.object_key(&key);
            assert_eq!(
                ObjectKey::new(object.as_str()).unwrap(),
                object,
                "a mapper made a name that is refused"
            );
            assert_eq!(mapper.offload_key(&object), Some(key));
        }
        if let Ok(object) = ObjectKey::new(name)
            && let Some(key) = mapper.offload_key(&object)
        {
            assert_eq!(mapper.object_key(&key), object, "two names for one key");
        }
    }
});

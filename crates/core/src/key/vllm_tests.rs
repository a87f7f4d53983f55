use proptest::prelude::*;

use super::*;
use crate::key::VllmGroup;

/// A namespace of vLLM, and what vLLM 0.33 makes of it. Where nothing else is said, its own `FileMapper` printed it.
struct Golden {
    namespace: VllmNamespace,
    json: Option<&'static str>,
    sha256: &'static str,
    base: &'static str,
}

fn group<const N: usize>(layers: [&str; N], tokens_per_block: u32) -> VllmGroup {
    VllmGroup { layer_names: layers.map(String::from).into(), tokens_per_block }
}

fn llama() -> Golden {
    Golden {
        namespace: VllmNamespace {
            prefix: "kv".into(),
            kv_cache_groups: vec![group(
                ["model.layers.0.self_attn.attn", "model.layers.1.self_attn.attn"],
                16,
            )],
            parallel_agnostic: true,
            ..VllmNamespace::new("meta-llama/Llama-3.1-8B-Instruct", "bfloat16")
        },
        json: Some(
            r#"{"blocks_per_file":1,"dcp_size":1,"dtype":"bfloat16","inference_engine":"vllm","kv_cache_groups":[{"layer_names":["model.layers.0.self_attn.attn","model.layers.1.self_attn.attn"],"tokens_per_block":16}],"model_name":"meta-llama/Llama-3.1-8B-Instruct","pcp_size":1,"pp_size":1,"tokens_per_hash":16,"tp_size":1}"#,
        ),
        sha256: "90c2841fc32cd5cb95aa2ea90f219be87e52b26c76ac0176d73adb75389874cf",
        base: "kv//meta-llama_Llama-3.1-8B-Instruct_90c2841fc32c_r0",
    }
}

fn without_prefix() -> Golden {
    Golden {
        namespace: VllmNamespace::new("test/model", "float16"),
        json: Some(
            r#"{"blocks_per_file":1,"dcp_size":1,"dtype":"float16","inference_engine":"vllm","kv_cache_groups":[],"model_name":"test/model","parallel_agnostic":false,"pcp_size":1,"pp_size":1,"tokens_per_hash":16,"tp_size":1}"#,
        ),
        sha256: "c32b90738e477fd9e5bc2347479d793dabe2e2711a8924078973b047935ed062",
        base: "/test_model_c32b90738e47_r0",
    }
}

fn replicated() -> Golden {
    Golden {
        namespace: VllmNamespace {
            prefix: "tenant-a/kv".into(),
            tokens_per_hash: 64,
            blocks_per_file: 4,
            tp_size: 4,
            rank: 3,
            kv_cache_groups: vec![
                group(["model.layers.0.self_attn.attn"], 64),
                group(["model.layers.1.mamba", "model.layers.2.mamba"], 128),
            ],
            replicated_layout: true,
            canonical_format: Some("v1-nhd".into()),
            ..VllmNamespace::new("deepseek-ai/DeepSeek-V3", "fp8")
        },
        json: Some(
            r#"{"blocks_per_file":4,"canonical_format":"v1-nhd","dcp_size":1,"dtype":"fp8","inference_engine":"vllm","kv_cache_groups":[{"layer_names":["model.layers.0.self_attn.attn"],"tokens_per_block":64},{"layer_names":["model.layers.1.mamba","model.layers.2.mamba"],"tokens_per_block":128}],"model_name":"deepseek-ai/DeepSeek-V3","pcp_size":1,"pp_size":1,"replicated_layout":true,"tokens_per_hash":64,"tp_size":1}"#,
        ),
        sha256: "414e130d0a51d798779068bd43ba79ac506d4f6e7e829c6f0624ecea4ca99b87",
        base: "tenant-a/kv//deepseek-ai_DeepSeek-V3_414e130d0a51_r0",
    }
}

/// The configuration of vLLM's own test of its names (`tests/v1/kv_offload/test_file_mapper.py`).
fn own_test() -> Golden {
    Golden {
        namespace: VllmNamespace {
            rank: 3,
            prefix: "tmp".into(),
            ..VllmNamespace::new("test-model", "float16")
        },
        json: None,
        sha256: "de3bba26cf36",
        base: "tmp//test-model_de3bba26cf36_r3",
    }
}

/// Letters that JSON writers treat in different ways. Not of vLLM: printed by Python 3.11 from the same rules.
fn odd_letters() -> Golden {
    Golden {
        namespace: VllmNamespace {
            prefix: "p".into(),
            kv_cache_groups: vec![group(["l\x7F\u{10FFFF}", "\t\0"], 16)],
            ..VllmNamespace::new("q\"b\\s é\u{2028}😀", "torch.float16")
        },
        json: Some(
            r#"{"blocks_per_file":1,"dcp_size":1,"dtype":"float16","inference_engine":"vllm","kv_cache_groups":[{"layer_names":["l\u007f\udbff\udfff","\t\u0000"],"tokens_per_block":16}],"model_name":"q\"b\\s \u00e9\u2028\ud83d\ude00","parallel_agnostic":false,"pcp_size":1,"pp_size":1,"tokens_per_hash":16,"tp_size":1}"#,
        ),
        sha256: "a50415f9c1ab7e56484f1255f9d8bcd9eae9ac180e86301fcf60f8607e276215",
        base: "p//q\"b\\s é\u{2028}😀_a50415f9c1ab_r0",
    }
}

fn edges() -> [Golden; 3] {
    let edge = |namespace, digest, base| Golden { namespace, json: None, sha256: digest, base };
    [
        edge(
            VllmNamespace {
                prefix: "kv/".into(),
                tp_size: 2,
                pp_size: 2,
                rank: 1,
                blocks_per_file: 16,
                kv_cache_groups: vec![group(["l0"], 16)],
                ..VllmNamespace::new("Qwen/Qwen2.5-7B-Instruct", "bfloat16")
            },
            "2a2aa71afc65",
            "kv///Qwen_Qwen2.5-7B-Instruct_2a2aa71afc65_r1",
        ),
        edge(
            VllmNamespace { prefix: "p".into(), ..VllmNamespace::new("org/モデル", "auto") },
            "e88c587e0bdf",
            "p//org_モデル_e88c587e0bdf_r0",
        ),
        edge(
            VllmNamespace { prefix: "p".into(), ..VllmNamespace::new("/data/models/My Model", "float16") },
            "898038634e77",
            "p//_data_models_My Model_898038634e77_r0",
        ),
    ]
}

/// The digest's JSON, the digest and the names' base are those of vLLM, byte for byte.
#[test]
fn golden_namespaces() {
    let others = [llama(), without_prefix(), replicated(), own_test(), odd_letters()];
    for golden in others.into_iter().chain(edges()) {
        if let Some(json) = golden.json {
            assert_eq!(golden.namespace.canonical_json(), json);
        }
        assert!(
            golden.namespace.digest().starts_with(golden.sha256),
            "{}",
            golden.namespace.canonical_json()
        );
        let keys = VllmKeys::new(&golden.namespace).unwrap();
        assert_eq!(keys.raw_base, format!("{}/", golden.base));
    }
}

/// The names of blocks are those of vLLM, byte for byte, and the objects are called the same without the
/// empty segments.
#[test]
fn golden_names() {
    let counting: Vec<u8> = (0..32).collect();
    let counting_hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let block_0 = "b8c6f33f1780d30977c5e964f62e7959102a3694f1c28ae0834ab12f98a3dcb0";
    let [qwen, japanese, path] = edges();
    for (golden, hash, group, suffix) in [
        (llama(), counting.clone(), 0, format!("000/10_g0/{counting_hex}.bin")),
        (llama(), vec![0xFF; 32], 1, format!("fff/ff_g1/{}.bin", "ff".repeat(32))),
        (without_prefix(), vec![0, 0, 0, 0, 0, 0, 0, 1], 0, "000/00_g0/0000000000000001.bin".into()),
        (replicated(), text::from_hex(block_0).unwrap(), 7, format!("b8c/6f_g7/{block_0}.bin")),
        (own_test(), counting[..8].to_vec(), 2, "000/10_g2/0001020304050607.bin".into()),
        (odd_letters(), vec![0xAB], 0, "ab/_g0/ab.bin".into()),
        (qwen, counting.clone(), 0, format!("000/10_g0/{counting_hex}.bin")),
        (japanese, counting.clone(), 0, format!("000/10_g0/{counting_hex}.bin")),
        (path, counting, u32::MAX, format!("000/10_g4294967295/{counting_hex}.bin")),
    ] {
        let keys = VllmKeys::new(&golden.namespace).unwrap();
        let key = OffloadKey::new(&hash, group).unwrap();
        let raw = format!("{}/{suffix}", golden.base);
        assert_eq!(keys.raw_name(&key), raw);
        let object = raw.replace("///", "/").replace("//", "/");
        assert_eq!(keys.object_key(&key).as_str(), object.trim_start_matches('/'));
        assert_eq!(keys.offload_key(&keys.object_key(&key)), Some(key));
    }
}

/// Hashes shorter than the slices leave them short, as in Python, and still come back.
#[test]
fn short_hashes_are_sliced_as_in_python() {
    let keys = VllmKeys::new(&VllmNamespace::new("m", "d")).unwrap();
    for (hash, middle) in [(&[0xAB][..], "/ab/_g5/ab.bin"), (&[0xAB, 0xCD], "/abc/d_g5/abcd.bin")] {
        let key = OffloadKey::new(hash, 5).unwrap();
        assert!(keys.raw_name(&key).ends_with(middle));
        assert_eq!(keys.offload_key(&keys.object_key(&key)), Some(key));
    }
}

/// Hashes of one and two bytes, whose segments run short: all 65,792 have their own names and come back from them.
#[test]
fn short_hashes_never_share_a_name() {
    let keys = VllmKeys::new(&VllmNamespace::new("m", "d")).unwrap();
    let one = (0..=u8::MAX).map(|byte| vec![byte]);
    let two = (0..=u16::MAX).map(|bytes| bytes.to_be_bytes().to_vec());
    let mut names = std::collections::HashSet::new();
    for hash in one.chain(two) {
        let key = OffloadKey::new(&hash, 0).unwrap();
        let name = keys.object_key(&key);
        assert_eq!(keys.offload_key(&name), Some(key));
        assert!(names.insert(name), "{key} shares its name");
    }
}

/// A prefix or model that would make names that no client sends as they are is refused when the mapper is made.
#[test]
fn bad_namespaces_are_config_errors() {
    let refused = |prefix: &str, model: &str| {
        let namespace = VllmNamespace { prefix: prefix.into(), ..VllmNamespace::new(model, "d") };
        VllmKeys::new(&namespace).is_err_and(|error| error.kind() == ErrorKind::Config)
    };
    for (prefix, model) in [
        ("..", "m"),
        ("a/./b", "m"),
        ("a\0", "m"),
        ("a", "m\n"),
        (&"p".repeat(900), "m"),
        ("", &"m".repeat(900)),
    ] {
        assert!(refused(prefix, model), "{prefix:?} {model:?}");
    }
    for (prefix, model) in [("/kv/", "m"), ("a//b", ".."), ("", "")] {
        assert!(!refused(prefix, model), "{prefix:?} {model:?}");
    }
}

/// Names that vLLM does not make are nobody's, also when they are nearly right.
#[test]
fn foreign_names_have_no_block() {
    let namespace = VllmNamespace { prefix: "kv".into(), ..VllmNamespace::new("m", "d") };
    let keys = VllmKeys::new(&namespace).unwrap();
    let base = &keys.base;
    for foreign in [
        "000/10_g0/000103.bin.tmp",
        "000/10_g00/000103.bin",
        "000/10_g0/00010A.bin",
        "001/10_g0/000103.bin",
        "000/11_g0/000103.bin",
        "000/10_g0/x/000103.bin",
        "000103.bin",
        "000/10_g0/.bin",
        "config.json",
        "ab/c_g0/ab.bin",
        "ab/_g0/abc.bin",
    ] {
        let name = ObjectKey::new(format!("{base}{foreign}")).unwrap();
        assert_eq!(keys.offload_key(&name), None, "{foreign}");
    }
    let other_rank = base.replace("_r0/", "_r01/");
    assert_eq!(keys.offload_key(&ObjectKey::new(format!("{other_rank}000/10_g0/000103.bin")).unwrap()), None);
    assert!(keys.offload_key(&ObjectKey::new(format!("{base}000/10_g0/000103.bin")).unwrap()).is_some());
}

proptest! {
    /// Every key comes back from its name, so no two keys share one. Replay: the failing case is in the regressions file.
    #[test]
    fn names_are_injective(
        prefix in "[a-zé /]{0,20}",
        model in "[a-zA-Z0-9é/._ -]{0,40}",
        hash in prop::collection::vec(any::<u8>(), 1..=64),
        group in any::<u32>(),
    ) {
        let keys = VllmKeys::new(&VllmNamespace { prefix, ..VllmNamespace::new(model, "d") }).unwrap();
        let key = OffloadKey::new(&hash, group).unwrap();
        let object = keys.object_key(&key);
        prop_assert_eq!(keys.offload_key(&object), Some(key));
        prop_assert!(object.as_str().starts_with(keys.prefix()));
        prop_assert_eq!(ObjectKey::new(object.as_str()).unwrap(), object);
    }
}

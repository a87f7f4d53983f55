use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use kvtier_core::Direction::{Load, Store};
use kvtier_core::key::VllmNamespace;
use kvtier_core::{ErrorKind, KeyMapper, OffloadKey, ShardedKeys, VllmKeys};

use crate::bench::Bench;
use crate::case::{Case, Check, ensure};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "names/each_is_its_own_object",
        shows: "names that clients like to rewrite reach their own objects, or are refused as unsupported",
        needs: &[],
        block_bytes: 64,
        run: |bench| each_is_its_own_object(bench).boxed(),
    },
    Case {
        name: "names/of_the_mappers",
        shows: "the names that kvtier's key mappers make are taken, and lead back to their keys",
        needs: &[],
        block_bytes: 64,
        run: |bench| of_the_mappers(bench).boxed(),
    },
];

/// Each differs from another in something that some client or server changes.
const NAMES: &[&str] = &[
    "plain",
    "Plain",
    "a b",
    "a+b",
    "a%20b",
    "a%2Fb",
    "a/b",
    "a:b",
    "a@b",
    "a=b",
    "a&b",
    "a?b",
    "a#b",
    "a;b",
    "a,b",
    "a'b",
    "a\"b",
    "a\\b",
    "a~b",
    "a*b",
    "a|b",
    "a<b>",
    "(a)",
    "[a]",
    "{a}",
    "$a",
    "!a",
    "...",
    "a..b",
    "ä",
    "a\u{308}",
    "モデル",
    "🦀",
    "very/deep/down/in/the/tree",
];

async fn each_is_its_own_object(bench: &mut Bench<'_>) -> Check {
    let mut taken = Vec::new();
    for (block, name) in (0..).zip(NAMES) {
        let bytes = bench.block(block);
        bench.fill(0, &bytes)?;
        match bench.run(Store, &[(name, 0)]).await?.remove(0) {
            Ok(()) => taken.push((block, *name)),
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    ensure!(taken.iter().any(|(_, name)| *name == "plain"), "not even plain names are taken");
    // After all of them: two names that are one object would show here.
    for (block, name) in &taken {
        bench.run_all(Load, &[(name, 1)]).await?;
        ensure!(bench.slot(1)? == bench.block(*block), "{name} holds the block of another name");
    }
    let long = ["x"; 4].map(|letter| letter.repeat(200)).join("/");
    let bytes = bench.block(500);
    bench.fill(0, &bytes)?;
    match bench.run(Store, &[(&long, 0)]).await?.remove(0) {
        Ok(()) => bench.run_all(Load, &[(&long, 1)]).await,
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(format!("a name of {} bytes: {error}", long.len())),
    }
}

// K1 to K4 are checked by the mappers' own golden vectors; here, that the store takes what they make.
async fn of_the_mappers(bench: &mut Bench<'_>) -> Check {
    let sharded = ShardedKeys::new("sharded").map_err(|error| error.to_string())?;
    let vllm = VllmKeys::new(&VllmNamespace::new("org/My Model", "bfloat16"));
    let vllm = vllm.map_err(|error| error.to_string())?;
    let mappers: [&dyn KeyMapper; 2] = [&sharded, &vllm];
    let mut seen = BTreeSet::new();
    for (round, mapper) in (0..).zip(mappers) {
        for n in 0..32_u8 {
            let key = OffloadKey::new(&[n.wrapping_mul(37); 32], u32::from(n % 3))
                .map_err(|error| error.to_string())?;
            let name = mapper.object_key(&key);
            ensure!(mapper.offload_key(&name) == Some(key), "{name} does not lead back to its key");
            ensure!(seen.insert(name.as_str().to_owned()), "{name} stands for two keys");
            let block = bench.block(u32::from(n) + 100 * round);
            bench.fill(0, &block)?;
            bench.run_all(Store, &[(name.as_str(), 0)]).await?;
            bench.run_all(Load, &[(name.as_str(), 1)]).await?;
            ensure!(bench.slot(1)? == block, "{name} came back changed");
        }
    }
    Ok(())
}

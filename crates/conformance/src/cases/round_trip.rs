use futures_util::FutureExt as _;
use kvtier_core::Direction::{Load, Store};

use crate::bench::Bench;
use crate::case::{Case, Check, ensure};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "round_trip/sizes",
        shows: "blocks from one byte to the largest come back byte for byte",
        needs: &[],
        block_bytes: 1,
        run: |bench| sizes(bench).boxed(),
    },
    Case {
        name: "round_trip/batches",
        shows: "batches of any size come back, the empty one too",
        needs: &[],
        block_bytes: 300,
        run: |bench| batches(bench).boxed(),
    },
    Case {
        name: "round_trip/object_is_the_block",
        shows: "the object holds the block and nothing else, and an object from elsewhere is a block",
        needs: &[],
        block_bytes: 4096,
        run: |bench| object_is_the_block(bench).boxed(),
    },
    Case {
        name: "round_trip/one_key_twice",
        shows: "one key may be stored and loaded twice in a batch; the object is never torn",
        needs: &[],
        block_bytes: 64 << 10,
        run: |bench| one_key_twice(bench).boxed(),
    },
    Case {
        name: "round_trip/overwrite",
        shows: "a key that is stored again holds the new block",
        needs: &[],
        block_bytes: 4096,
        run: |bench| overwrite(bench).boxed(),
    },
];

// O3, F4.
async fn sizes(bench: &mut Bench<'_>) -> Check {
    let largest = bench.options.block_bytes_max;
    for bytes in [1, 15, 16, 511, 4096, 65_537, largest].into_iter().filter(|bytes| *bytes <= largest) {
        bench.memory(bytes, 4)?;
        let name = format!("{bytes}");
        let block = bench.block(7);
        bench.fill(0, &block)?;
        bench.run_all(Store, &[(&name, 0)]).await?;
        bench.run_all(Load, &[(&name, 1)]).await?;
        ensure!(bench.slot(1)? == block, "a block of {bytes} bytes came back changed");
    }
    Ok(())
}

// O5, F4.
async fn batches(bench: &mut Bench<'_>) -> Check {
    for blocks in [0, 1, 2, 5, 100, bench.options.batch_max] {
        let names: Vec<_> = (0..blocks).map(|block| format!("{blocks}-{block}")).collect();
        let batch: Vec<_> = names.iter().map(String::as_str).zip(0..).collect();
        for slot in 0..blocks {
            let block = bench.block(slot);
            bench.fill(slot, &block)?;
        }
        bench.run_all(Store, &batch).await?;
        for slot in 0..blocks {
            bench.fill(slot, &vec![0; bench.block_bytes()])?;
        }
        bench.run_all(Load, &batch).await?;
        for slot in 0..blocks {
            let is_right = bench.slot(slot)? == bench.block(slot);
            ensure!(is_right, "block {slot} of a batch of {blocks} came back changed");
        }
    }
    Ok(())
}

async fn object_is_the_block(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    bench.fill(0, &block)?;
    bench.run_all(Store, &[("stored", 0)]).await?;
    ensure!(bench.object("stored").await? == Some(block), "the object is not the block");
    let foreign = bench.block(2);
    bench.plant("foreign", foreign.clone()).await?;
    bench.run_all(Load, &[("foreign", 1)]).await?;
    ensure!(bench.slot(1)? == foreign, "an object from elsewhere came back changed");
    Ok(())
}

async fn one_key_twice(bench: &mut Bench<'_>) -> Check {
    let blocks = [bench.block(1), bench.block(2)];
    for (slot, block) in (0..).zip(&blocks) {
        bench.fill(slot, block)?;
    }
    bench.run_all(Store, &[("key", 0), ("key", 1)]).await?;
    let object = bench.object("key").await?;
    ensure!(
        blocks.iter().any(|block| object.as_ref() == Some(block)),
        "the object is neither of the two blocks"
    );
    bench.run_all(Load, &[("key", 2), ("key", 3)]).await?;
    for slot in [2, 3] {
        ensure!(Some(bench.slot(slot)?) == object, "a load of a key that is loaded twice came back changed");
    }
    Ok(())
}

// F10: a key stands for its content, so a rewrite changes nothing that matters; but it must not tear.
async fn overwrite(bench: &mut Bench<'_>) -> Check {
    for seed in [1, 2] {
        let block = bench.block(seed);
        bench.fill(0, &block)?;
        bench.run_all(Store, &[("key", 0)]).await?;
        bench.run_all(Load, &[("key", 1)]).await?;
        ensure!(bench.slot(1)? == block, "the load after store {seed} brought another block");
    }
    Ok(())
}

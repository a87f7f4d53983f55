use futures_util::FutureExt as _;
use kvtier_core::Direction::{Load, Store};

use crate::bench::Bench;
use crate::case::{Case, Check, ensure};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "ownership/none_early",
        shows: "when a store is complete anybody can read the object; when a load is, the slot holds the block",
        needs: &[],
        block_bytes: 64 << 10,
        run: |bench| none_early(bench).boxed(),
    },
    Case {
        name: "ownership/source_is_free",
        shows: "a slot may be used again once its store is complete; the object keeps the old block",
        needs: &[],
        block_bytes: 64 << 10,
        run: |bench| source_is_free(bench).boxed(),
    },
    Case {
        name: "ownership/no_access_after_completion",
        shows: "slots are used again as soon as each is complete, good or bad, and nothing touches them any more",
        needs: &[],
        block_bytes: 64 << 10,
        run: |bench| no_access_after_completion(bench).boxed(),
    },
    Case {
        name: "ownership/exactly_one_completion",
        shows: "each of many transfers, good and bad, is completed once",
        needs: &[],
        block_bytes: 512,
        run: |bench| exactly_one_completion(bench).boxed(),
    },
    Case {
        name: "ownership/engine_dropped",
        shows: "an engine that is dropped in the middle loses no transfer and no slot",
        needs: &[],
        block_bytes: 64 << 10,
        run: |bench| engine_dropped(bench).boxed(),
    },
];

/// Loads at once in these cases.
const BLOCKS: u32 = 24;

fn names() -> Vec<String> {
    (0..BLOCKS).map(|block| format!("{block}")).collect()
}

async fn none_early(bench: &mut Bench<'_>) -> Check {
    let names = names();
    // Made before, so that nothing but the look itself comes between a completion and the look.
    let blocks: Vec<_> = (0..BLOCKS).map(|block| bench.block(block)).collect();
    for (slot, block) in (0..).zip(&blocks) {
        bench.fill(slot, block)?;
    }
    let batch: Vec<_> = names.iter().map(String::as_str).zip(0..).collect();
    let first = bench.start(Store, &batch)?.first().map_or(0, |id| id.0);
    while bench.is_running() {
        for (id, result) in bench.next_ended().await? {
            let block = usize::try_from(id.0 - first).unwrap_or(0);
            let object = bench.object(&names[block]).await?;
            result.map_err(|error| format!("a store failed: {error}"))?;
            ensure!(
                object.as_ref() == Some(&blocks[block]),
                "a store was complete before its object was there"
            );
        }
    }
    let batch: Vec<_> = names.iter().map(String::as_str).zip(BLOCKS..).collect();
    let first = bench.start(Load, &batch)?.first().map_or(0, |id| id.0);
    while bench.is_running() {
        for (id, result) in bench.next_ended().await? {
            let block = u32::try_from(id.0 - first).unwrap_or(0);
            let slot = bench.slot(BLOCKS + block)?;
            result.map_err(|error| format!("a load failed: {error}"))?;
            ensure!(slot == blocks[block as usize], "a load was complete before its block was there");
        }
    }
    Ok(())
}

async fn source_is_free(bench: &mut Bench<'_>) -> Check {
    for round in 0..BLOCKS {
        let (name, block) = (format!("{round}"), bench.block(round));
        bench.fill(0, &block)?;
        bench.run_all(Store, &[(&name, 0)]).await?;
    }
    for round in 0..BLOCKS {
        let object = bench.object(&format!("{round}")).await?;
        ensure!(object == Some(bench.block(round)), "the object changed after its store was complete");
    }
    Ok(())
}

/// Names of objects that are there, are not there, and are too short, in turn.
async fn mixed(bench: &mut Bench<'_>) -> Result<Vec<String>, String> {
    let names = names();
    for (block, name) in (0..).zip(&names) {
        let bytes = bench.block(block);
        match block % 3 {
            0 => bench.plant(name, bytes).await?,
            1 => {}
            _ => bench.plant(name, bytes[..bytes.len() / 2].to_vec()).await?,
        }
    }
    Ok(names)
}

async fn no_access_after_completion(bench: &mut Bench<'_>) -> Check {
    let names = mixed(bench).await?;
    let batch: Vec<_> = names.iter().map(String::as_str).zip(0..).collect();
    let first = bench.start(Load, &batch)?.first().map_or(0, |id| id.0);
    let marker = bench.block(999);
    while bench.is_running() {
        for (id, _) in bench.next_ended().await? {
            let slot = u32::try_from(id.0 - first).unwrap_or(0);
            // Looked at when the case ends.
            bench.fill(slot, &marker)?;
        }
    }
    Ok(())
}

// O4, O8, O12, F13.
async fn exactly_one_completion(bench: &mut Bench<'_>) -> Check {
    let names = mixed(bench).await?;
    for round in 0..8 {
        let loads: Vec<_> = names.iter().map(String::as_str).zip(round * BLOCKS..).collect();
        bench.start(Load, &loads)?;
    }
    let new: Vec<_> = (0..BLOCKS).map(|block| format!("stored-{block}")).collect();
    let stores: Vec<_> = new.iter().map(String::as_str).zip(8 * BLOCKS..).collect();
    bench.start(Store, &stores)?;
    while bench.is_running() {
        bench.next_ended().await?;
    }
    Ok(())
}

// O15, F14.
async fn engine_dropped(bench: &mut Bench<'_>) -> Check {
    let names = mixed(bench).await?;
    let batch: Vec<_> = names.iter().map(String::as_str).zip(0..).collect();
    bench.start(Load, &batch)?;
    let new: Vec<_> = (0..BLOCKS).map(|block| format!("stored-{block}")).collect();
    let stores: Vec<_> = new.iter().map(String::as_str).zip(BLOCKS..).collect();
    bench.start(Store, &stores)?;
    bench.replace_engine().await?;
    while bench.is_running() {
        bench.next_ended().await?;
    }
    Ok(())
}

use std::time::Duration;

use futures_util::FutureExt as _;
use kvtier_core::Direction::{Load, Store};
use kvtier_core::{Error, ErrorKind};

use crate::Fault;
use crate::bench::{Bench, now};
use crate::case::{Case, Check, Need, ensure};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "failure/missing",
        shows: "a load of an object that is not there fails as such, and works once it is",
        needs: &[],
        block_bytes: 4096,
        run: |bench| missing(bench).boxed(),
    },
    Case {
        name: "failure/short",
        shows: "an object shorter than the block, or empty, is corrupt",
        needs: &[Need::DetectsShort],
        block_bytes: 4096,
        run: |bench| short(bench).boxed(),
    },
    Case {
        name: "failure/long",
        shows: "an object longer than the block is corrupt",
        needs: &[Need::DetectsLong],
        block_bytes: 4096,
        run: |bench| long(bench).boxed(),
    },
    Case {
        name: "failure/one_bad_among_many",
        shows: "bad blocks in a batch change nothing for the others",
        needs: &[],
        block_bytes: 16 << 10,
        run: |bench| one_bad_among_many(bench).boxed(),
    },
    Case {
        name: "failure/cut",
        shows: "an answer that ends in the middle is no block, and the next try works",
        needs: &[Need::Faults],
        block_bytes: 64 << 10,
        run: |bench| cut(bench).boxed(),
    },
    Case {
        name: "failure/kinds",
        shows: "throttled, denied and unavailable stores are told apart, for loads",
        needs: &[Need::Faults, Need::ReportsKinds],
        block_bytes: 4096,
        run: |bench| kinds(bench).boxed(),
    },
    Case {
        name: "failure/stores",
        shows: "a store that is refused fails, and stores nothing",
        needs: &[Need::Faults],
        block_bytes: 4096,
        run: |bench| refused_stores(bench).boxed(),
    },
    Case {
        name: "failure/no_retries",
        shows: "one call is one attempt: a single failure of the store is seen",
        needs: &[Need::Faults],
        block_bytes: 4096,
        run: |bench| no_retries(bench).boxed(),
    },
    Case {
        name: "failure/deadline",
        shows: "a transfer that the store never answers ends at its deadline; others go on",
        needs: &[Need::Faults, Need::HonoursDeadline],
        block_bytes: 4096,
        run: |bench| deadline(bench).boxed(),
    },
];

fn is_kind(result: &Result<(), Error>, kind: ErrorKind, what: &str) -> Check {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(format!("{what} is {error}, not {kind}")),
        Ok(()) => Err(format!("{what} is a success, not {kind}")),
    }
}

// F3, F9.
async fn missing(bench: &mut Bench<'_>) -> Check {
    let result = bench.run(Load, &[("key", 0)]).await?.remove(0);
    if bench.engine.capabilities().reports_error_kinds {
        is_kind(&result, ErrorKind::NotFound, "a load of nothing")?;
    }
    ensure!(result.is_err(), "a load of nothing is a success");
    let block = bench.block(1);
    bench.plant("key", block.clone()).await?;
    bench.run_all(Load, &[("key", 0)]).await?;
    ensure!(bench.slot(0)? == block, "the block came back changed");
    Ok(())
}

// F6, F7, F8.
async fn short(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    for bytes in [0, 1, block.len() / 2, block.len() - 16, block.len() - 1] {
        bench.plant("key", block[..bytes].to_vec()).await?;
        let result = bench.run(Load, &[("key", 0)]).await?.remove(0);
        is_kind(&result, ErrorKind::Corrupt, &format!("a load of an object of {bytes} bytes"))?;
    }
    Ok(())
}

async fn long(bench: &mut Bench<'_>) -> Check {
    let mut object = bench.block(1);
    // One byte more may be seen by chance alone; two are enough for that chance to be nothing.
    for more in [4, 16, 100, object.len(), 1 << 20] {
        object.resize(bench.block_bytes() + more, 0x5A);
        bench.plant("key", object.clone()).await?;
        let result = bench.run(Load, &[("key", 0)]).await?.remove(0);
        is_kind(&result, ErrorKind::Corrupt, &format!("a load of an object with {more} bytes more"))?;
    }
    Ok(())
}

// F3, F7, F8, T3, O12.
async fn one_bad_among_many(bench: &mut Bench<'_>) -> Check {
    const BLOCKS: u32 = 16;
    let names: Vec<_> = (0..BLOCKS).map(|block| format!("{block}")).collect();
    let is_bad = |block: u32| block.is_multiple_of(5);
    for (block, name) in (0..).zip(&names) {
        if !is_bad(block) {
            let bytes = bench.block(block);
            bench.plant(name, bytes).await?;
        }
    }
    let batch: Vec<_> = names.iter().map(String::as_str).zip(0..).collect();
    for (block, result) in (0..).zip(bench.run(Load, &batch).await?) {
        ensure!(result.is_err() == is_bad(block), "block {block} ended as {result:?}");
        let is_right = is_bad(block) || bench.slot(block)? == bench.block(block);
        ensure!(is_right, "block {block} came back changed");
    }
    Ok(())
}

async fn cut(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    bench.plant("key", block.clone()).await?;
    bench.inject("key", Fault::Cut, true).await?;
    let result = bench.run(Load, &[("key", 0)]).await?.remove(0);
    ensure!(result.is_err(), "half a block is a success");
    bench.run_all(Load, &[("key", 0)]).await?;
    ensure!(bench.slot(0)? == block, "the block came back changed");
    Ok(())
}

async fn kinds(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    for (fault, kind) in [
        (Fault::Throttled, ErrorKind::Throttled),
        (Fault::Denied, ErrorKind::Denied),
        (Fault::Unavailable, ErrorKind::Unavailable),
    ] {
        let name = format!("{fault:?}");
        bench.plant(&name, block.clone()).await?;
        bench.inject(&name, fault, false).await?;
        let result = bench.run(Load, &[(&name, 0)]).await?.remove(0);
        is_kind(&result, kind, &format!("a load that is {fault:?}"))?;
    }
    Ok(())
}

// O7, O11, F13.
async fn refused_stores(bench: &mut Bench<'_>) -> Check {
    for fault in [Fault::Throttled, Fault::Denied, Fault::Unavailable] {
        let name = format!("{fault:?}");
        bench.inject(&name, fault, false).await?;
        let block = bench.block(1);
        bench.fill(0, &block)?;
        bench.fill(1, &block)?;
        let results = bench.run(Store, &[(&name, 0), ("fine", 1)]).await?;
        ensure!(results[0].is_err(), "a store that is {fault:?} is a success");
        ensure!(results[1].is_ok(), "it spoilt another store: {:?}", results[1]);
        ensure!(bench.object(&name).await?.is_none(), "a store that failed left an object");
    }
    Ok(())
}

async fn no_retries(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    bench.plant("key", block.clone()).await?;
    bench.inject("key", Fault::Unavailable, true).await?;
    let result = bench.run(Load, &[("key", 0)]).await?.remove(0);
    ensure!(result.is_err(), "the engine tried again by itself; only the tier does");
    bench.run_all(Load, &[("key", 0)]).await?;
    ensure!(bench.slot(0)? == block, "the block came back changed");
    Ok(())
}

async fn deadline(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    for name in ["stalled", "fine"] {
        bench.plant(name, block.clone()).await?;
    }
    bench.inject("stalled", Fault::Stalled, false).await?;
    let (start, after) = (now(), Duration::from_secs(1).min(bench.options.patience / 2));
    let ids = bench.start_until(Load, &[("stalled", 0)], Some(start + after))?;
    bench.run_all(Load, &[("fine", 1)]).await?;
    let result = bench.finish(&ids).await?.remove(0);
    is_kind(&result, ErrorKind::Timeout, "a load past its deadline")?;
    ensure!(start.elapsed() >= after, "the load was given up before its deadline");
    Ok(())
}

use std::time::Duration;

use futures_util::FutureExt as _;
use kvtier_core::Direction::{Load, Store};
use kvtier_core::ErrorKind;

use crate::Fault;
use crate::bench::{Bench, now};
use crate::case::{Case, Check, Need, ensure};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "lifecycle/probe",
        shows: "a probe of a store that works is content",
        needs: &[],
        block_bytes: 64,
        run: |bench| probe(bench).boxed(),
    },
    Case {
        name: "lifecycle/close",
        shows: "after a close, transfers, lookups and probes end as closed; a second close returns at once",
        needs: &[],
        block_bytes: 64,
        run: |bench| close(bench).boxed(),
    },
    Case {
        name: "lifecycle/close_with_work",
        shows: "a close waits for what was accepted: when it returns, everything has ended",
        needs: &[],
        block_bytes: 64 << 10,
        run: |bench| close_with_work(bench).boxed(),
    },
    Case {
        name: "lifecycle/close_of_a_stalled_store",
        shows: "a close keeps its deadline though the store never answers",
        needs: &[Need::Faults],
        block_bytes: 4096,
        run: |bench| close_of_a_stalled_store(bench).boxed(),
    },
    Case {
        name: "lifecycle/past_deadline",
        shows: "a transfer whose deadline is over ends once, whatever becomes of it",
        needs: &[],
        block_bytes: 4096,
        run: |bench| past_deadline(bench).boxed(),
    },
];

// O28: the other half, a probe of a store that does not work, needs another store.
async fn probe(bench: &mut Bench<'_>) -> Check {
    for _ in 0..2 {
        bench.engine.probe().await.map_err(|error| format!("the probe failed: {error}"))?;
    }
    Ok(())
}

// O16.
async fn close(bench: &mut Bench<'_>) -> Check {
    bench.plant("key", vec![1; 64]).await?;
    let patience = bench.options.patience;
    let first = bench.close(patience).await?;
    ensure!(first < patience, "an idle engine waited for the whole deadline");
    for direction in [Store, Load] {
        let result = bench.run(direction, &[("key", 0)]).await?.remove(0);
        let is_closed = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed);
        ensure!(is_closed, "a {direction} after the close ended as {result:?}");
    }
    let answer = bench.lookup(&["key"]).await?.remove(0);
    let is_closed = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed);
    ensure!(is_closed, "a lookup after the close is answered {answer:?}");
    ensure!(bench.engine.probe().await.is_err(), "a probe after the close is content");
    let second = bench.close(patience).await?;
    ensure!(second < patience, "a second close waited");
    Ok(())
}

// O9, O15, F14.
async fn close_with_work(bench: &mut Bench<'_>) -> Check {
    let names: Vec<_> = (0..48).map(|n| format!("{n}")).collect();
    for slot in 0..48 {
        let block = bench.block(slot);
        bench.fill(slot, &block)?;
    }
    let batch: Vec<_> = names.iter().map(String::as_str).zip(0..).collect();
    let ids = bench.start(Store, &batch)?;
    bench.close(bench.options.patience).await?;
    bench.take_posted();
    ensure!(!bench.is_running(), "the close returned before everything had ended");
    for (slot, result) in (0..).zip(bench.finish(&ids).await?) {
        // Cancelled or stored, but not something in between.
        let object = bench.object(&names[slot as usize]).await?;
        let is_whole = object.as_ref().is_none_or(|object| *object == bench.block(slot));
        ensure!(is_whole, "a store that ended as {result:?} left half an object");
        ensure!(result.is_err() || object.is_some(), "a store that succeeded left no object");
    }
    Ok(())
}

async fn close_of_a_stalled_store(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    bench.plant("stalled", block).await?;
    bench.inject("stalled", Fault::Stalled, false).await?;
    let ids = bench.start(Load, &[("stalled", 0)])?;
    let took = bench.close(Duration::from_secs(1)).await?;
    ensure!(took < Duration::from_secs(5), "a close with a deadline of 1 s took {took:?}");
    if bench.engine.capabilities().honours_deadline {
        let result = bench.finish(&ids).await?.remove(0);
        let is_late = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout);
        ensure!(is_late, "what was in flight at the deadline ended as {result:?}");
    }
    Ok(())
}

async fn past_deadline(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    bench.plant("key", block.clone()).await?;
    let ids = bench.start_until(Load, &[("key", 0)], Some(now()))?;
    let result = bench.finish(&ids).await?.remove(0);
    let is_late = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout);
    ensure!(is_late || (result.is_ok() && bench.slot(0)? == block), "it ended as {result:?}");
    Ok(())
}

use futures_util::FutureExt as _;
use kvtier_core::Direction::Store;
use kvtier_core::Presence;

use crate::Fault;
use crate::bench::Bench;
use crate::case::{Case, Check, Need, ensure};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "lookup/present_and_absent",
        shows: "each probe of a batch has its own answer, and a key asked twice has two",
        needs: &[],
        block_bytes: 64,
        run: |bench| present_and_absent(bench).boxed(),
    },
    Case {
        name: "lookup/batches",
        shows: "batches of any size are answered, the empty one too",
        needs: &[],
        block_bytes: 64,
        run: |bench| batches(bench).boxed(),
    },
    Case {
        name: "lookup/after_a_store",
        shows: "a block is present as soon as its store is complete",
        needs: &[],
        block_bytes: 4096,
        run: |bench| after_a_store(bench).boxed(),
    },
    Case {
        name: "lookup/odd_objects",
        shows: "an empty object and a very large one are present",
        needs: &[],
        block_bytes: 64,
        run: |bench| odd_objects(bench).boxed(),
    },
    Case {
        name: "lookup/size",
        shows: "a present object's size is told",
        needs: &[Need::ReportsSize],
        block_bytes: 64,
        run: |bench| size(bench).boxed(),
    },
    Case {
        name: "lookup/errors_are_not_absence",
        shows: "a lookup that the store refuses is an error, never absent, and spoils no other",
        needs: &[Need::Faults],
        block_bytes: 64,
        run: |bench| errors_are_not_absence(bench).boxed(),
    },
];

fn presence(answer: &Result<Presence, kvtier_core::Error>) -> Result<bool, String> {
    answer.as_ref().map(|presence| presence.is_present()).map_err(|error| format!("a lookup failed: {error}"))
}

async fn expect(bench: &mut Bench<'_>, names: &[&str], expected: &[bool]) -> Check {
    let answers = bench.lookup(names).await?;
    for ((answer, name), expected) in answers.iter().zip(names).zip(expected) {
        ensure!(presence(answer)? == *expected, "{name}: present is {}, not {expected}", !expected);
    }
    Ok(())
}

// O1, O2, O6, A3, A4.
async fn present_and_absent(bench: &mut Bench<'_>) -> Check {
    for name in ["a", "c"] {
        bench.plant(name, vec![1; 64]).await?;
    }
    expect(bench, &["a", "b", "c", "a", "b"], &[true, false, true, true, false]).await
}

// A3, A5.
async fn batches(bench: &mut Bench<'_>) -> Check {
    let names: Vec<_> = (0..200).map(|n| format!("{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for name in names.iter().step_by(20) {
        bench.plant(name, vec![1; 64]).await?;
    }
    let expected: Vec<_> = (0..names.len()).map(|n| n.is_multiple_of(20)).collect();
    for count in [0, 1, 2, 200] {
        expect(bench, &names[..count], &expected[..count]).await?;
    }
    Ok(())
}

async fn after_a_store(bench: &mut Bench<'_>) -> Check {
    let block = bench.block(1);
    bench.fill(0, &block)?;
    expect(bench, &["key"], &[false]).await?;
    bench.run_all(Store, &[("key", 0)]).await?;
    expect(bench, &["key", "other"], &[true, false]).await
}

async fn odd_objects(bench: &mut Bench<'_>) -> Check {
    bench.plant("empty", Vec::new()).await?;
    bench.plant("large", vec![1; 3 << 20]).await?;
    expect(bench, &["empty", "large", "absent"], &[true, true, false]).await
}

async fn size(bench: &mut Bench<'_>) -> Check {
    for bytes in [0, 1, 64, 5000] {
        let name = format!("{bytes}");
        bench.plant(&name, vec![1; bytes]).await?;
        let answer = bench.lookup(&[&name]).await?.remove(0);
        let expected = Presence::Present { size_bytes: Some(bytes as u64) };
        ensure!(answer.as_ref().ok() == Some(&expected), "an object of {bytes} bytes is {answer:?}");
    }
    Ok(())
}

// O10, A14; an absent answer for an error would make a cold cache of a wrong key.
async fn errors_are_not_absence(bench: &mut Bench<'_>) -> Check {
    bench.plant("there", vec![1; 64]).await?;
    for fault in [Fault::Denied, Fault::Throttled, Fault::Unavailable] {
        bench.inject("refused", fault, false).await?;
        let answers = bench.lookup(&["there", "refused", "absent"]).await?;
        ensure!(answers[1].is_err(), "a lookup that is {fault:?} is answered {:?}", answers[1]);
        ensure!(presence(&answers[0])? && !presence(&answers[2])?, "it spoilt another lookup");
    }
    Ok(())
}

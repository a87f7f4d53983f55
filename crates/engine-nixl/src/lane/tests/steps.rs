use kvtier_core::{Direction, ErrorKind, Presence};

use super::bench::{BLOCK_BYTES, Bench, options};
use super::world::{Call, World};

/// Each step failing in turn, for stores and loads, one block and many, staged and not: what was acquired is released,
/// once, in order; each block has one result; a block whose own steps worked is moved.
#[test]
fn every_step_may_fail() {
    let mut runs = 0;
    for zero_copy in [false, true] {
        for direction in [Direction::Store, Direction::Load] {
            for blocks in [1_u32, 5] {
                for (call, nth) in Call::ALL.into_iter().flat_map(|call| [(call, 0), (call, 1), (call, 3)]) {
                    run_with_failure(zero_copy, direction, blocks, call, nth);
                    runs += 1;
                }
            }
        }
    }
    assert_eq!(runs, 2 * 2 * 2 * 13 * 3);
}

fn run_with_failure(zero_copy: bool, direction: Direction, blocks: u32, call: Call, nth: usize) {
    let name = |block| format!("kv/{block}");
    let case = format!("{call:?} number {nth}, zero_copy {zero_copy}, {direction}, {blocks} blocks");
    let objects = (0..blocks).map(|block| (name(block), vec![u8::try_from(block).unwrap() + 1; BLOCK_BYTES]));
    let world = World { fail: Some((call, nth)), objects: objects.collect(), polls: 1, ..World::default() };
    let Ok(mut bench) = Bench::try_new(world, options(zero_copy)) else {
        assert!(matches!(call, Call::CreateAgent | Call::CreateBackend | Call::CreateOptions), "{case}");
        return;
    };
    for block in 0..blocks {
        bench.fill(block, u8::try_from(block).unwrap() + 101);
        bench.send(direction, &name(block), block, None);
    }
    bench.settle();
    bench.close();
    bench.assert_clean(blocks as usize);
    let left =
        usize::from(call.leaks() && bench.world.lock().log.iter().filter(|is| **is == call).count() > nth);
    assert_eq!(bench.world.lock().left_over(), left, "{case}");
    for (id, result) in &bench.ended {
        let slot = u32::try_from(*id).unwrap() - 1;
        if result.is_err() {
            assert!(!call.leaks(), "{case}: a failed release spoilt a block");
            continue;
        }
        match direction {
            Direction::Load => {
                assert_eq!(bench.slot(slot), vec![u8::try_from(slot).unwrap() + 1; BLOCK_BYTES]);
            }
            Direction::Store => {
                assert_eq!(bench.world.lock().objects[&name(slot)], bench.slot(slot), "{case}");
            }
        }
    }
    // One call of these concerns one block; those for the batch concern all of it.
    let failed = bench.ended.values().filter(|result| result.is_err()).count();
    if matches!(call, Call::CreateRequest | Call::Post | Call::Status) {
        assert!(failed <= 1, "{case}: {failed} blocks failed for one");
    }
}

/// A run without failures calls what it must in this order, and nothing else.
#[test]
fn calls_come_in_order() {
    let mut bench = Bench::new(World::default(), options(false));
    bench.fill(0, 7);
    bench.send(Direction::Store, "kv/a", 0, None);
    bench.settle();
    bench.close();
    bench.assert_clean(1);
    let world = bench.world.lock();
    assert_eq!(
        world.log,
        [
            Call::CreateAgent,
            Call::CreateBackend,
            Call::CreateOptions,
            Call::RegisterHost,
            Call::RegisterObject,
            Call::CreateRequest,
            Call::Post,
            Call::Status,
            Call::Release,
            Call::Deregister,
            Call::Deregister,
            Call::DestroyOptions,
            Call::DestroyBackend,
            Call::DestroyAgent,
        ]
    );
}

/// Objects of one batch are registered in one call, and no more requests run than the window allows.
#[test]
fn work_goes_in_batches_within_the_window() {
    let mut bench = Bench::new(World { polls: 2, ..World::default() }, options(false));
    for slot in 0..24 {
        bench.send(Direction::Store, &format!("kv/{slot}"), slot, None);
    }
    bench.settle();
    bench.close();
    bench.assert_clean(24);
    assert!(bench.ended.values().all(Result::is_ok));
    let world = bench.world.lock();
    assert_eq!(world.running_max, 8);
    let registrations = world.log.iter().filter(|call| **call == Call::RegisterObject).count();
    assert!(registrations <= 6, "{registrations} calls for 24 objects");
}

/// Each kind of refusal is told by the code in the body, for loads directly and for stores by asking; the
/// others in the same batch are moved.
#[test]
fn refusals_have_reasons() {
    for zero_copy in [false, true] {
        for (code, kind) in [
            ("NoSuchBucket", ErrorKind::Config),
            ("AccessDenied", ErrorKind::Denied),
            ("SlowDown", ErrorKind::Throttled),
            ("InternalError", ErrorKind::Unavailable),
        ] {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let refused = [("kv/refused".to_owned(), body)].into();
            let objects = [("kv/good".to_owned(), vec![9; BLOCK_BYTES])].into();
            let mut bench = Bench::new(World { objects, refused, ..World::default() }, options(zero_copy));
            let good = bench.send(Direction::Load, "kv/good", 0, None);
            let load = bench.send(Direction::Load, "kv/refused", 1, None);
            let store = bench.send(Direction::Store, "kv/refused", 2, None);
            let missing = bench.send(Direction::Load, "kv/missing", 3, None);
            bench.settle();
            bench.close();
            bench.assert_clean(4);
            let kind_of = |id: u64| bench.ended[&id].as_ref().map_err(kvtier_core::Error::kind).err();
            assert_eq!(kind_of(good), None);
            assert_eq!(bench.slot(0), vec![9; BLOCK_BYTES]);
            assert_eq!(kind_of(missing), Some(ErrorKind::NotFound));
            for id in [load, store] {
                assert_eq!(kind_of(id), Some(kind), "{code}: {:?}", bench.ended[&id]);
                assert!(bench.ended[&id].as_ref().unwrap_err().message().contains(code));
            }
        }
    }
}

/// An object of another length is corrupt, and what of it came stays out of the slot when staging.
#[test]
fn other_lengths_are_corrupt() {
    for (bytes, seen_without_staging) in
        [(0, true), (1, true), (BLOCK_BYTES - 1, true), (BLOCK_BYTES + 1, false), (2 * BLOCK_BYTES, false)]
    {
        for zero_copy in [false, true] {
            let objects = [("kv/a".to_owned(), vec![3; bytes])].into();
            let mut bench = Bench::new(World { objects, ..World::default() }, options(zero_copy));
            bench.fill(0, 55);
            let id = bench.send(Direction::Load, "kv/a", 0, None);
            bench.settle();
            bench.close();
            bench.assert_clean(1);
            if zero_copy && !seen_without_staging {
                assert!(bench.ended[&id].is_ok(), "capabilities say that this is not seen");
                continue;
            }
            assert_eq!(bench.ended[&id].as_ref().unwrap_err().kind(), ErrorKind::Corrupt, "{bytes}");
            if !zero_copy {
                assert_eq!(bench.slot(0), vec![55; BLOCK_BYTES], "{bytes}");
            }
        }
    }
}

/// Lookups: present, empty, absent and refused, each by itself.
#[test]
fn lookups_tell_absent_from_refused() {
    let refused = |code: &str| format!("<Error><Code>{code}</Code></Error>");
    let world = World {
        objects: [("kv/there".to_owned(), vec![1; 9])].into(),
        refused: [
            ("kv/denied".to_owned(), refused("AccessDenied")),
            ("kv/empty".to_owned(), refused("InvalidRange")),
            ("kv/broken".to_owned(), String::new()),
        ]
        .into(),
        ..World::default()
    };
    let mut bench = Bench::new(world, options(false));
    let [there, absent, denied, empty, broken] =
        ["kv/there", "kv/absent", "kv/denied", "kv/empty", "kv/broken"].map(|key| bench.ask(key));
    bench.settle();
    let kind = |id| bench.answers[&id].as_ref().unwrap_err().kind();
    assert!(bench.answers[&there].as_ref().unwrap().is_present());
    assert_eq!(bench.answers[&absent].as_ref().unwrap(), &Presence::Absent);
    assert_eq!(bench.answers[&empty].as_ref().unwrap(), &Presence::Present { size_bytes: Some(0) });
    assert_eq!((kind(denied), kind(broken)), (ErrorKind::Denied, ErrorKind::Unavailable));
    bench.close();
    bench.assert_clean(0);
}

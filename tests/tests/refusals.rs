//! What a tier does not accept: each refusal says why, and changes nothing.

use kvtier_core::{
    Direction, ErrorKind, HostMemory, JobId, LeaseError, Outcome, SecondaryTier, ShardedKeys, SubmitError,
    TierOptions,
};
use kvtier_engine_mock::{MockEngine, MockStore, TransferEnd};
use kvtier_tests::{BLOCK_BYTES, Fixture, PATIENCE, SLOTS, key, keys};
use tokio::runtime::{Builder, Handle};

fn fixture() -> Fixture {
    Fixture::new(&Handle::current(), |_| {})
}

/// Checks that a submission is refused as it should be, through both doors, and leaves no trace.
async fn assert_refused(
    fixture: &Fixture,
    direction: Direction,
    blocks: &[u8],
    slots: &[u32],
    expected: &SubmitError,
) {
    let (stats, leased) = (fixture.tier.stats(), fixture.memory.leased_slots());
    let (job, blocks) = (JobId(99), keys(blocks.iter().copied()));
    let (by_number, by_task) = match direction {
        Direction::Store => {
            (fixture.tier.submit_store(job, blocks.clone(), slots), fixture.tier.store(blocks, slots).await)
        }
        Direction::Load => {
            (fixture.tier.submit_load(job, blocks.clone(), slots), fixture.tier.load(blocks, slots).await)
        }
    };
    assert_eq!(by_number.as_ref(), Err(expected));
    assert_eq!(by_task.err().as_ref(), Some(expected));
    assert_eq!(fixture.tier.stats(), stats, "something was started");
    assert_eq!(fixture.memory.leased_slots(), leased, "a slot stayed leased");
}

/// A job number is taken until its report was taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_job_number_is_refused() {
    let fixture = fixture();
    fixture.tier.submit_store(JobId(1), keys([1]), &[0]).unwrap();
    let duplicate = Err(SubmitError::DuplicateJob(JobId(1)));
    assert_eq!(fixture.tier.submit_load(JobId(1), keys([2]), &[1]), duplicate);
    assert_eq!(fixture.memory.leased_slots(), 1, "the refused job gave its slot back");
    fixture.engine.wait_for_transfers(1).await;
    fixture.engine.complete_all();
    fixture.tier.drain(PATIENCE).unwrap();
    assert_eq!(fixture.tier.submit_load(JobId(1), keys([2]), &[1]), duplicate, "finished, but not reported");
    assert_eq!(fixture.tier.take_finished().len(), 1);
    fixture.tier.submit_load(JobId(1), keys([2]), &[1]).unwrap();
}

/// A slot that the memory does not have is refused, also when others in the job are fine.
// vLLM's F5.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_out_of_range_is_refused() {
    let fixture = fixture();
    let expected = LeaseError::OutOfRange { slot: SLOTS, slots: SLOTS }.into();
    for direction in [Direction::Store, Direction::Load] {
        assert_refused(&fixture, direction, &[1, 2], &[0, SLOTS], &expected).await;
    }
}

/// Keys and slots must pair up.
#[tokio::test(flavor = "multi_thread")]
async fn keys_without_slots_are_refused() {
    let fixture = fixture();
    for direction in [Direction::Store, Direction::Load] {
        assert_refused(
            &fixture,
            direction,
            &[1, 2],
            &[0],
            &SubmitError::LengthMismatch { keys: 2, slots: 1 },
        )
        .await;
        assert_refused(&fixture, direction, &[], &[0], &SubmitError::LengthMismatch { keys: 0, slots: 1 })
            .await;
    }
}

/// A slot that is stored can be stored again, but not loaded.
#[tokio::test(flavor = "multi_thread")]
async fn loading_over_a_store_is_refused() {
    let fixture = fixture();
    fixture.tier.submit_store(JobId(1), keys([1]), &[5]).unwrap();
    fixture.engine.wait_for_transfers(1).await;
    assert_refused(&fixture, Direction::Load, &[2], &[5], &LeaseError::Read { slot: 5 }.into()).await;
    fixture.tier.submit_store(JobId(2), keys([1]), &[5]).unwrap();
}

/// A slot that is loaded can be neither loaded nor stored, also within one job.
#[tokio::test(flavor = "multi_thread")]
async fn sharing_a_slot_with_a_load_is_refused() {
    let fixture = fixture();
    let written = LeaseError::Written { slot: 5 }.into();
    assert_refused(&fixture, Direction::Load, &[1, 2], &[5, 5], &written).await;
    fixture.tier.submit_load(JobId(1), keys([1]), &[5]).unwrap();
    fixture.engine.wait_for_transfers(1).await;
    for direction in [Direction::Store, Direction::Load] {
        assert_refused(&fixture, direction, &[2], &[5], &written).await;
    }
}

/// A slot whose transfer was lost is never used again.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_slot_is_refused() {
    let fixture = fixture();
    fixture.tier.submit_load(JobId(1), keys([1]), &[5]).unwrap();
    fixture.engine.wait_for_transfers(1).await;
    let id = fixture.engine.pending_transfers()[0].id;
    fixture.engine.complete(id, TransferEnd::DropExposed);
    let reports = fixture.reports();
    assert!(matches!(&reports[0].outcomes[0], Outcome::Failed(error) if error.kind() == ErrorKind::Lost));
    assert_eq!(fixture.tier.stats().quarantined_slots, 1);
    assert_refused(&fixture, Direction::Store, &[1], &[5], &LeaseError::Quarantined { slot: 5 }.into()).await;
}

/// A job that does not fit in the queue is refused whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_refused() {
    let fixture = Fixture::new(&Handle::current(), |options| options.queued_blocks_max = 3);
    let expected = SubmitError::QueueFull { blocks: 4, queued: 0, max: 3 };
    assert_refused(&fixture, Direction::Store, &[1, 2, 3, 4], &[0, 1, 2, 3], &expected).await;
    fixture.tier.submit_store(JobId(1), keys([1, 2, 3]), &[0, 1, 2]).unwrap();
}

/// A closed tier takes no jobs, not even empty ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_tier_refuses_everything() {
    let fixture = fixture();
    fixture.tier.shutdown(PATIENCE).unwrap();
    for direction in [Direction::Store, Direction::Load] {
        assert_refused(&fixture, direction, &[1], &[0], &SubmitError::Closed).await;
        assert_refused(&fixture, direction, &[], &[], &SubmitError::Closed).await;
    }
    let answers = fixture.tier.contains(&[key(1)]).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Closed);
}

/// A tier that could not work is refused when it is made, with what to change.
#[test]
fn impossible_options_are_config_errors() {
    let multi = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let single = Builder::new_current_thread().enable_all().build().unwrap();
    let refused = |handle: &Handle, block_bytes_max: u64, change: fn(&mut TierOptions)| {
        let mut options = TierOptions::new(handle.clone());
        change(&mut options);
        let engine = MockEngine::manual(&MockStore::default())
            .with_capabilities(|capabilities| capabilities.block_bytes_max = block_bytes_max);
        let memory = HostMemory::allocate(BLOCK_BYTES, 1).unwrap();
        let error = SecondaryTier::new(engine, ShardedKeys::new("kv").unwrap(), memory, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.message().to_owned()
    };
    assert!(refused(single.handle(), 64, |_| {}).contains("multi-thread runtime"));
    assert!(refused(multi.handle(), 63, |_| {}).contains("64 bytes are more than mock can move: 63"));
    assert!(
        refused(multi.handle(), 64, |options| options.queued_blocks_max = 0).contains("queued_blocks_max")
    );
    assert!(refused(multi.handle(), 64, |options| options.retry.attempts_max = 0).contains("attempts_max"));
}

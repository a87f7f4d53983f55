//! The same random batches through the object_store engine and the NIXL engine, side by side on one server, failing as
//! the same requests fail: the same outcomes, the same bytes in memory, the same objects.
//! `KVTIER_DIFFERENTIAL_SEED=n` runs one seed.
#![cfg(feature = "nixl")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kvtier_core::{
    Access, CompletionQueue, Direction, ErrorKind, HostMemory, ObjectKey, Presence, Probe, ProbeId, Retry,
    Transfer, TransferEngine, TransferId,
};
use kvtier_engine_nixl::NixlEngine;
use kvtier_engine_object_store::ObjectStoreEngine;
use kvtier_store::StoreConfig;
use kvtier_testkit::{Fault, FaultProxy, FaultRule, S3Options, S3Server};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::runtime::Handle;

const BLOCK_BYTES: usize = 2000;
const SLOTS: u32 = 8;
const BATCHES: u32 = 12;
const SEEDS: u64 = 12;
const PATIENCE: Duration = Duration::from_secs(30);

/// One engine and its memory, with names under a prefix of its own.
struct Side {
    prefix: String,
    engine: Box<dyn TransferEngine>,
    memory: Arc<HostMemory>,
    queue: Arc<CompletionQueue>,
    next: u64,
}

/// One block of a batch.
#[derive(Clone, Copy, Debug)]
struct Step {
    direction: Direction,
    key: u32,
    slot: u32,
}

impl Side {
    fn new(prefix: &str, engine: Box<dyn TransferEngine>) -> Self {
        let memory = HostMemory::allocate(BLOCK_BYTES, SLOTS).unwrap();
        Self { prefix: prefix.to_owned(), engine, memory, queue: Arc::default(), next: 0 }
    }

    fn key(&self, key: u32) -> ObjectKey {
        ObjectKey::new(format!("{}/{key}.bin", self.prefix)).unwrap()
    }

    /// Runs a batch; says how each block ended, in order.
    async fn run(&mut self, batch: &[Step]) -> Vec<Option<ErrorKind>> {
        let mut transfers = Vec::new();
        for step in batch {
            if step.direction == Direction::Store {
                let byte = u8::try_from(step.key).unwrap();
                self.memory.lease(step.slot, Access::Write).unwrap().copy_in(0, &[byte; BLOCK_BYTES]);
            }
            let lease = self.memory.lease(step.slot, step.direction.access()).unwrap();
            let id = TransferId(self.next);
            self.next += 1;
            transfers.push(Transfer::new(id, step.direction, self.key(step.key), lease, &self.queue));
        }

        self.engine.submit(transfers);
        let mut ended = BTreeMap::new();
        while ended.len() < batch.len() {
            tokio::time::timeout(PATIENCE, self.queue.posted()).await.expect("a transfer got lost");
            for done in self.queue.take().transfers {
                ended.insert(done.id, done.result.err().map(|error| error.kind()));
            }
        }
        ended.into_values().collect()
    }

    /// Whether each key is there, or whether asking again may help: an answer to HEAD has no body, so the reference engine
    /// cannot tell a throttled lookup from an unavailable store.
    async fn lookup(&self, keys: u32) -> Vec<Result<bool, Retry>> {
        let probe = |key: u32| Probe::new(ProbeId(key.into()), self.key(key), &self.queue);
        self.engine.lookup((0..keys).map(probe).collect());
        let mut answers = BTreeMap::new();
        while answers.len() < keys as usize {
            tokio::time::timeout(PATIENCE, self.queue.posted()).await.expect("a lookup got lost");
            for answer in self.queue.take().answers {
                let is_there = answer.result.map(Presence::is_present).map_err(|error| error.retry());
                answers.insert(answer.id, is_there);
            }
        }
        answers.into_values().collect()
    }

    fn slots(&self) -> Vec<Vec<u8>> {
        (0..SLOTS).map(|slot| self.memory.lease(slot, Access::Read).unwrap().to_vec()).collect()
    }
}

const KEYS: u32 = 10;

/// Blocks of one batch: each slot once, each key once, so that the order in which they end makes no difference.
fn batch(random: &mut ChaCha8Rng) -> Vec<Step> {
    let (mut slots, mut keys): (Vec<_>, Vec<_>) = ((0..SLOTS).collect(), (0..KEYS).collect());
    let pick = |from: &mut Vec<u32>, random: &mut ChaCha8Rng| {
        let at = random.next_u32() as usize % from.len();
        from.swap_remove(at)
    };
    (0..=random.next_u32() % SLOTS)
        .map(|_| {
            let is_store = random.next_u32().is_multiple_of(2);
            let direction = if is_store { Direction::Store } else { Direction::Load };
            Step { direction, key: pick(&mut keys, random), slot: pick(&mut slots, random) }
        })
        .collect()
}

/// Both engines, both ways of the second; a failing seed is named by the assertion.
#[tokio::test(flavor = "multi_thread")]
async fn engines_agree() {
    let one = std::env::var("KVTIER_DIFFERENTIAL_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = one.map_or(0..SEEDS, |seed| seed..seed + 1);
    let (mut blocks, mut failures) = (0, 0);
    for seed in seeds {
        let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
        let proxy = FaultProxy::start_on_thread(server.endpoint()).unwrap();
        let pairs = [
            format!("bucket={}", server.bucket()),
            format!("endpoint={}", proxy.endpoint()),
            format!("access_key={}", server.access_key()),
            format!("secret_key={}", server.secret_key()),
        ];
        let config = StoreConfig::from_pairs(&pairs).unwrap();
        let zero_copy = format!("zero_copy={}", seed % 2 == 1);
        let nixl = StoreConfig::from_pairs(pairs.iter().chain([&zero_copy])).unwrap();
        let reference = ObjectStoreEngine::s3(&config, Handle::current()).unwrap();
        let mut a = Side::new("a", Box::new(reference));
        let mut b = Side::new("b", Box::new(NixlEngine::s3(&nixl).unwrap()));
        // Some keys fail, on both sides the same.
        for (key, fault) in [
            (7, Fault::refuse(403, "AccessDenied")),
            (8, Fault::refuse(503, "SlowDown")),
            (9, Fault::Truncate(100)),
        ] {
            proxy.add(FaultRule::always(format!("/{key}.bin"), fault));
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for round in 0..BATCHES {
            let batch = batch(&mut random);
            let (of_a, of_b) = (a.run(&batch).await, b.run(&batch).await);
            assert_eq!(of_a, of_b, "seed {seed}, batch {round}: {batch:?}");
            blocks += batch.len();
            failures += of_a.iter().flatten().count();
            // A failed load leaves unspecified bytes.
            let (slots_a, slots_b) = (a.slots(), b.slots());
            for (step, failure) in batch.iter().zip(&of_a) {
                if failure.is_none() {
                    let slot = step.slot as usize;
                    assert!(slots_a[slot] == slots_b[slot], "seed {seed}, batch {round}: {step:?}");
                }
            }
            assert_eq!(a.lookup(KEYS).await, b.lookup(KEYS).await, "seed {seed}, batch {round}");
        }
        let objects = |side: &Side| {
            let names = server.store().keys(server.bucket());
            let own = names.into_iter().filter(|name| name.starts_with(&side.prefix));
            own.map(|name| {
                let bytes = server.store().get(server.bucket(), &name).unwrap();
                (name[side.prefix.len()..].to_owned(), bytes)
            })
            .collect::<BTreeMap<_, _>>()
        };
        assert!(objects(&a) == objects(&b), "seed {seed}: the stores differ");
    }
    println!("differential: {blocks} blocks through each engine, {failures} failures, all the same");
    assert!(failures > 0, "nothing failed, so little was shown");
}

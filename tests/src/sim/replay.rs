use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use kvtier_core::Verdict;

use super::{Blocks, End, Event, KEYS, Object, REQUESTS, SLOTS, Sim, bytes};

/// Requests of one replay.
const REQUESTS_SERVED: u32 = 12;
/// Most scheduler steps that one request may wait. An engine that forgets nothing needs far fewer.
const STEPS_MAX: u32 = 400;

/// A defect of the simulated world, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// None.
    Nothing,
    /// An object of the right length changes in the store.
    FlippedByte,
    /// A posted completion gets lost on its way.
    LostCompletion,
}

/// What one replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events, each followed by all checks.
    pub events: u64,
    /// Of everything that happened: equal for equal seeds.
    pub digest: u64,
    /// Blocks that came from the store.
    pub loaded: u64,
    /// Blocks that were computed.
    pub computed: u64,
}

/// Serves a workload from a seed: requests that share prefixes look up, load what hits, compute and store the rest, while
/// completions come in any order, late, or as errors, objects vanish or shrink, and jobs are cancelled.
///
/// # Panics
/// If an invariant breaks, or a request is never served.
pub fn replay(seed: u64, planted: Planted) -> Summary {
    let mut world =
        World { sim: Sim::new(), random: ChaCha8Rng::seed_from_u64(seed), summary: Summary::default() };
    for request in 0..REQUESTS_SERVED {
        world.serve(u8::try_from(request).unwrap_or(0) % REQUESTS, planted);
    }
    let World { sim, mut summary, .. } = world;
    (summary.events, summary.digest) = sim.end();
    summary
}

struct World {
    sim: Sim,
    random: ChaCha8Rng,
    summary: Summary,
}

impl World {
    fn below(&mut self, n: u32) -> u32 {
        self.random.next_u32() % n
    }

    fn byte(&mut self) -> u8 {
        self.random.next_u32().to_le_bytes()[0]
    }

    fn serve(&mut self, request: u8, planted: Planted) {
        // Two conversations that share their first blocks.
        let conversation = u8::try_from(self.below(2)).unwrap_or(0);
        let length = 1 + u8::try_from(self.below(6)).unwrap_or(0);
        let keys: Vec<u8> =
            (0..length).map(|n| if n < 2 { n } else { (n + conversation * 8) % KEYS }).collect();
        for key in keys {
            let verdict = self.ask(request, key);
            let slot = self.byte();
            let blocks = Blocks { key, slot, count: 1 };
            if verdict == Verdict::Hit {
                self.summary.loaded += 1;
                self.sim.apply(Event::Load(blocks));
            } else {
                self.summary.computed += 1;
                self.sim.apply(Event::Store(blocks));
            }
            self.meddle(key, planted);
            self.tick();
        }
        self.sim.apply(Event::FinishRequest { request });
        self.sim.apply(Event::Take);
    }

    /// Asks step after step until there is a verdict.
    fn ask(&mut self, request: u8, key: u8) -> Verdict {
        for _ in 0..STEPS_MAX {
            let verdict = self.sim.lookup(request, key);
            if verdict != Verdict::Pending {
                return verdict;
            }
            self.sim.apply(Event::EndStep);
            self.tick();
        }
        panic!("request {request} waits for ever for key {key}");
    }

    /// A scheduler's step: some time, and some of what the engine holds.
    fn tick(&mut self) {
        let ms = self.byte() % 16;
        self.sim.apply(Event::Advance { ms });
        for _ in 0..self.below(4) {
            let (nth, end) = (self.byte(), self.end());
            self.sim.apply(Event::Complete { nth, end });
        }
        for _ in 0..self.below(3) {
            let (nth, end) = (self.byte(), self.end());
            self.sim.apply(Event::Answer { nth, end });
        }
        match self.below(40) {
            0 => {
                let nth = self.byte();
                self.sim.apply(Event::Cancel { nth });
            }
            1 => self.sim.apply(Event::CancelAll),
            2..=5 => self.sim.apply(Event::Take),
            _ => {}
        }
    }

    fn end(&mut self) -> End {
        match self.below(100) {
            0..=79 => End::Perform,
            80..=91 => End::Temporary,
            92..=95 => End::Permanent,
            96..=98 => End::Drop,
            // Each one costs a slot for ever.
            _ if self.sim.model.lost.len() < SLOTS as usize / 3 => End::Lose,
            _ => End::Drop,
        }
    }

    fn meddle(&mut self, key: u8, planted: Planted) {
        match self.below(30) {
            0 => self.sim.apply(Event::Plant { key, object: Object::Absent }),
            1 => self.sim.apply(Event::Plant { key, object: Object::Short }),
            2 => self.sim.apply(Event::Plant { key, object: Object::Whole }),
            _ => {}
        }
        match planted {
            Planted::Nothing => {}
            Planted::FlippedByte => {
                let mut object = bytes(key);
                object[3] ^= 1;
                let name = self.sim.name(key);
                if self.sim.store.get(&name).is_some() {
                    self.sim.store.insert(name, object);
                }
            }
            Planted::LostCompletion => {
                self.sim.engine.complete_next();
                drop(self.sim.queue.take());
            }
        }
    }
}

use kvtier_core::{Direction, Error, ErrorKind, ObjectKey, Probe, Transfer, TransferId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engine::State;
use crate::{MockEngine, ProbeEnd, TransferEnd};

/// How often things go wrong, each in chances out of 1000; at most one fault hits a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A transfer or probe fails with one of `fail_kinds`; no byte moves.
    pub fail_per_mille: u32,
    /// What failures are drawn from, each with the same chance.
    pub fail_kinds: Vec<ErrorKind>,
    /// A transfer is dropped with its slot exposed, a probe without an answer.
    pub lost_per_mille: u32,
    /// The store forgets the object just before a load or a probe looks for it. It stays gone.
    pub absent_per_mille: u32,
    /// The store cuts the object to half its length just before a load or a probe looks at it. It stays cut.
    pub short_per_mille: u32,
}

/// One thing that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// See [`Faults::fail_per_mille`].
    Fail(ErrorKind),
    /// See [`Faults::lost_per_mille`].
    Lost,
    /// See [`Faults::absent_per_mille`].
    Absent,
    /// See [`Faults::short_per_mille`].
    Short,
}

/// What one step did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A transfer ended.
    Transfer {
        /// Its number.
        id: TransferId,
        /// Which way the block moved.
        direction: Direction,
        /// The object's name.
        key: ObjectKey,
        /// What went wrong on the engine's side; without a fault, the store decided.
        fault: Option<Fault>,
    },
    /// A probe ended.
    Probe {
        /// The object's name.
        key: ObjectKey,
        /// What went wrong on the engine's side; without a fault, the store decided.
        fault: Option<Fault>,
    },
}

/// Drives a [manual](MockEngine::manual) engine: which token ends next, and how, is drawn from a seed.
///
/// The same seed and the same calls, of the engine as well as of the schedule, make the same trace, on
/// every machine.
///
/// ```
/// use kvtier_core::ErrorKind;
/// use kvtier_engine_mock::{Faults, MockEngine, MockStore, Schedule};
///
/// let engine = MockEngine::manual(&MockStore::default());
/// let faults = Faults { fail_per_mille: 50, fail_kinds: vec![ErrorKind::Throttled], ..Faults::default() };
/// let mut schedule = Schedule::new(42, faults);
/// // ... a tier submits ...
/// schedule.run_until_idle(&engine);
/// println!("{:#?}", schedule.trace());
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    random: ChaCha8Rng,
    faults: Faults,
    trace: Vec<Event>,
}

enum Token {
    Transfer(Transfer),
    Probe(Probe),
}

impl Schedule {
    /// A schedule with nothing in its trace.
    ///
    /// # Panics
    /// If the chances exceed 1000 together, or something shall fail but with no kind.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let Faults { fail_per_mille, fail_kinds, lost_per_mille, absent_per_mille, short_per_mille } =
            &faults;
        let sum = [fail_per_mille, lost_per_mille, absent_per_mille, short_per_mille];
        let sum: u64 = sum.into_iter().copied().map(u64::from).sum();
        assert!(sum <= 1000, "{sum} chances out of 1000");
        assert!(*fail_per_mille == 0 || !fail_kinds.is_empty(), "failures need a kind");
        Self { random: ChaCha8Rng::seed_from_u64(seed), faults, trace: Vec::new() }
    }

    /// Ends one token that the engine holds; `None` if it holds nothing.
    pub fn step(&mut self, engine: &MockEngine) -> Option<&Event> {
        let Self { random, faults, trace } = self;
        let take = |state: &mut State| {
            let (transfers, probes) = (state.transfers.len(), state.probes.len());
            if transfers + probes == 0 {
                return None;
            }
            let index = random.random_range(0..transfers + probes);
            let token = match index.checked_sub(transfers) {
                None => Token::Transfer(state.transfers.remove(index)?),
                Some(index) => Token::Probe(state.probes.remove(index)?),
            };
            let fault = faults.draw(random).filter(|fault| token.is_open_to(*fault));
            Some((token, fault))
        };
        let ended = engine.end(take, |(token, fault)| trace.push(token.end(engine, fault)));
        if ended == 0 { None } else { self.trace.last() }
    }

    /// Steps until the engine holds nothing, and tells how many steps it took. A tier may submit more
    /// as soon as it learns of them: [`MockEngine::wait_for_transfers`] knows when.
    pub fn run_until_idle(&mut self, engine: &MockEngine) -> usize {
        let before = self.trace.len();
        while self.step(engine).is_some() {}
        self.trace.len() - before
    }

    /// All that happened, in order.
    pub fn trace(&self) -> &[Event] {
        &self.trace
    }
}

impl Faults {
    fn draw(&self, random: &mut ChaCha8Rng) -> Option<Fault> {
        let mut roll: u32 = random.random_range(0..1000);
        let mut hit = |per_mille| {
            let hit = roll < per_mille;
            roll = roll.saturating_sub(per_mille);
            hit
        };
        if hit(self.fail_per_mille) {
            let index = random.random_range(0..self.fail_kinds.len());
            Some(Fault::Fail(self.fail_kinds[index]))
        } else if hit(self.lost_per_mille) {
            Some(Fault::Lost)
        } else if hit(self.absent_per_mille) {
            Some(Fault::Absent)
        } else if hit(self.short_per_mille) {
            Some(Fault::Short)
        } else {
            None
        }
    }
}

impl Token {
    /// A store does not look at the object that was there.
    fn is_open_to(&self, fault: Fault) -> bool {
        match (self, fault) {
            (Self::Transfer(transfer), Fault::Absent | Fault::Short) => {
                transfer.direction() == Direction::Load
            }
            (Self::Transfer(_), Fault::Fail(_) | Fault::Lost) | (Self::Probe(_), _) => true,
        }
    }

    fn key(&self) -> &ObjectKey {
        match self {
            Self::Transfer(transfer) => transfer.key(),
            Self::Probe(probe) => probe.key(),
        }
    }

    fn end(self, engine: &MockEngine, fault: Option<Fault>) -> Event {
        let key = self.key().clone();
        match fault {
            Some(Fault::Absent) => drop(engine.store().remove(&key)),
            Some(Fault::Short) => {
                if let Some(object) = engine.store().get(&key) {
                    engine.store().insert(key.clone(), object.slice(..object.len() / 2));
                }
            }
            Some(Fault::Fail(_) | Fault::Lost) | None => {}
        }
        let planted = |kind| Error::new(kind, format!("a planted fault hit {key}"));
        match self {
            Self::Transfer(transfer) => {
                let (id, direction) = (transfer.id(), transfer.direction());
                let end = match fault {
                    Some(Fault::Fail(kind)) => TransferEnd::Fail(planted(kind)),
                    Some(Fault::Lost) => TransferEnd::DropExposed,
                    Some(Fault::Absent | Fault::Short) | None => TransferEnd::Perform,
                };
                engine.end_transfer(transfer, end);
                Event::Transfer { id, direction, key, fault }
            }
            Self::Probe(probe) => {
                let end = match fault {
                    Some(Fault::Fail(kind)) => ProbeEnd::Fail(planted(kind)),
                    Some(Fault::Lost) => ProbeEnd::Drop,
                    Some(Fault::Absent | Fault::Short) | None => ProbeEnd::Perform,
                };
                engine.end_probe(probe, end);
                Event::Probe { key, fault }
            }
        }
    }
}

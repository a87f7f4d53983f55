use std::collections::{HashMap, VecDeque};

use crate::{Error, OffloadKey, Presence, ProbeId};

/// A request's number, chosen by the caller: what verdicts are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The answer to "is this block in the store?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is, as far as anybody knows. A load may still fail.
    Hit,
    /// It is not, or nobody can say. Compute it.
    Miss,
    /// Not known yet: ask again next step.
    Pending,
}

/// Bounds of a [`LookupTable`].
#[derive(Clone, Copy, Debug)]
pub struct LookupLimits {
    /// Most keys known or waiting at a time. Beyond it a new key is a [`Verdict::Miss`].
    pub entries_max: u32,
    /// Most probes out at a time.
    pub in_flight_max: u32,
}

/// How much a [`LookupTable`] holds, and what it has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Keys with a verdict or on the way to one.
    pub entries: usize,
    /// Probes sent and not answered.
    pub in_flight: usize,
    /// Keys answered [`Verdict::Miss`] because the table was full.
    pub refused: u64,
    /// Probes that ended with an error, each answered [`Verdict::Miss`].
    pub failed: u64,
}

/// The state machine of lookups: pure, with no clock, no I/O and no threads.
///
/// A key's entry goes `Asked -> InFlight -> Resolved`. Entries are shared by the requests that asked
/// and dropped with the last one.
///
/// # Contract
/// - [`lookup`](Self::lookup) never waits. A key asked for the first time is sent after the next
///   [`flush`](Self::flush), in the order asked, once, however many requests ask.
/// - A verdict stays as it is while a request holds it, except that a finished store turns it into `Hit` and a
///   failed load turns it into `Miss`. The latter is not probed again until every request that holds it has ended.
/// - An entry whose last request ends is dropped and not sent; a probe already in flight is kept, so that a
///   new request attaches to it. A late answer never lands on a newer entry.
/// - An error is a `Miss` for the caller, and counted as what it is.
#[derive(Debug)]
pub struct LookupTable {
    limits: LookupLimits,
    entries: HashMap<OffloadKey, Entry>,
    requests: HashMap<RequestId, Vec<OffloadKey>>,
    /// Asked since the last flush.
    asked: Vec<OffloadKey>,
    /// Flushed, waiting for room in the window.
    queue: VecDeque<OffloadKey>,
    in_flight: HashMap<ProbeId, OffloadKey>,
    next_probe: u64,
    closed: bool,
    refused: u64,
    failed: u64,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Sorted: request numbers mostly grow, so a new one goes to the end.
    holders: Vec<RequestId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    InFlight(ProbeId),
    Resolved(Verdict),
}

impl Entry {
    /// Adds a holder; says whether it is new.
    fn attach(&mut self, request: RequestId) -> bool {
        match self.holders.binary_search(&request) {
            Ok(_) => false,
            Err(at) => {
                self.holders.insert(at, request);
                true
            }
        }
    }

    fn detach(&mut self, request: RequestId) {
        if let Ok(at) = self.holders.binary_search(&request) {
            self.holders.remove(at);
        }
    }

    fn verdict(&self) -> Verdict {
        match self.state {
            State::Resolved(verdict) => verdict,
            State::Asked | State::InFlight(_) => Verdict::Pending,
        }
    }
}

impl LookupTable {
    /// An empty table.
    pub fn new(limits: LookupLimits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            requests: HashMap::new(),
            asked: Vec::new(),
            queue: VecDeque::new(),
            in_flight: HashMap::new(),
            next_probe: 0,
            closed: false,
            refused: 0,
            failed: 0,
        }
    }

    /// What is known about a key, for a request that holds the answer from now on.
    pub fn lookup(&mut self, request: RequestId, key: &OffloadKey) -> Verdict {
        if let Some(entry) = self.entries.get_mut(key) {
            if entry.attach(request) {
                self.requests.entry(request).or_default().push(*key);
            }
            return entry.verdict();
        }
        if self.closed {
            return Verdict::Miss;
        }
        // Keys asked and dropped again wait in the lists until they are skipped, so those count too.
        let waiting = self.asked.len() + self.queue.len();
        if self.entries.len().max(waiting) >= self.limits.entries_max as usize {
            self.refused += 1;
            return Verdict::Miss;
        }
        self.entries.insert(*key, Entry { state: State::Asked, holders: vec![request] });
        self.requests.entry(request).or_default().push(*key);
        self.asked.push(*key);
        Verdict::Pending
    }

    /// Lets everything asked so far be sent.
    pub fn flush(&mut self) {
        self.queue.extend(self.asked.drain(..));
    }

    /// The next key to probe, or `None` if the window is full or nothing waits.
    pub fn next_probe(&mut self) -> Option<(ProbeId, OffloadKey)> {
        if self.in_flight.len() >= self.limits.in_flight_max as usize {
            return None;
        }
        loop {
            let key = self.queue.pop_front()?;
            // Dropped, or sent or resolved since: nothing to ask.
            let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.state == State::Asked) else {
                continue;
            };
            let id = ProbeId(self.next_probe);
            self.next_probe += 1;
            entry.state = State::InFlight(id);
            self.in_flight.insert(id, key);
            return Some((id, key));
        }
    }

    /// Takes a probe's answer. An unknown probe, or one whose entry has moved on, changes nothing.
    pub fn answer(&mut self, id: ProbeId, result: &Result<Presence, Error>) {
        let Some(key) = self.in_flight.remove(&id) else { return };
        self.failed += u64::from(result.is_err());
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.state == State::InFlight(id))
        else {
            return;
        };
        if entry.holders.is_empty() {
            self.entries.remove(&key);
            return;
        }
        let hit = result.as_ref().is_ok_and(|presence| presence.is_present());
        entry.state = State::Resolved(if hit { Verdict::Hit } else { Verdict::Miss });
    }

    /// A store of this block succeeded: whoever holds or awaits a verdict gets `Hit`.
    pub fn stored(&mut self, key: &OffloadKey) {
        if let Some(entry) = self.entries.get_mut(key)
            // Nobody holds it: the probe in flight still owns the entry, and its answer frees it.
            && !entry.holders.is_empty()
        {
            entry.state = State::Resolved(Verdict::Hit);
        }
    }

    /// A load of this block failed: a `Hit` becomes `Miss` for whoever holds it.
    pub fn load_failed(&mut self, key: &OffloadKey) {
        if let Some(entry) = self.entries.get_mut(key)
            && matches!(entry.state, State::Resolved(_))
        {
            entry.state = State::Resolved(Verdict::Miss);
        }
    }

    /// Ends a request: what it alone held is forgotten. An unknown request changes nothing.
    pub fn finish_request(&mut self, request: RequestId) {
        for key in self.requests.remove(&request).unwrap_or_default() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.detach(request);
            if entry.holders.is_empty() && !matches!(entry.state, State::InFlight(_)) {
                self.entries.remove(&key);
            }
        }
    }

    /// Answers `Miss` to everything that is not known, from now on.
    pub fn close(&mut self) {
        self.closed = true;
        self.asked.clear();
        self.queue.clear();
        self.entries.retain(|_, entry| {
            if entry.verdict() == Verdict::Pending {
                entry.state = State::Resolved(Verdict::Miss);
            }
            !entry.holders.is_empty()
        });
    }

    /// How much the table holds, and what it has counted.
    pub fn counts(&self) -> LookupCounts {
        LookupCounts {
            entries: self.entries.len(),
            in_flight: self.in_flight.len(),
            refused: self.refused,
            failed: self.failed,
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

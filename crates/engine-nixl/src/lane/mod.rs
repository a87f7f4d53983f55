//! A lane: one agent, its requests, and the state machine that moves work through them. One thread owns it, so nothing
//! here locks; it never blocks, except to make an agent or to end one that is quiet.

mod launch;
mod posted;
mod settle;
mod staging;
#[cfg(test)]
mod tests;
mod thread;
mod work;

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kvtier_core::{Error, ErrorKind, Transfer};
use rand_chacha::ChaCha8Rng;

use crate::agent::{Agent, Registration};
pub(crate) use launch::BLOCK_BYTES_MAX;
use posted::{Owner, Posted};
use staging::Staging;
pub(crate) use thread::LaneThread;
pub(crate) use work::Work;

/// Most agents of a lane whose threads are stuck and that wait for their end. Each holds its threads and buffers.
pub(crate) const AGENTS_ENDING_MAX: usize = 4;
/// How long after a failure to make an agent the next try is.
const AGENT_RETRY: Duration = Duration::from_secs(1);

/// How a lane works.
#[derive(Clone, Debug)]
pub(crate) struct LaneOptions {
    /// In the names of agents and threads.
    pub(crate) name: &'static str,
    /// Threads of the agent: requests that run at once.
    pub(crate) threads: usize,
    /// Requests posted at once; the rest waits here, where it can be cancelled.
    pub(crate) window: usize,
    pub(crate) staging_bytes: usize,
    pub(crate) zero_copy: bool,
    pub(crate) request_timeout: Duration,
    pub(crate) denied_is_absent: bool,
}

/// Counters of what a lane had to leave behind.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Requests that were given up and still run.
    pub(crate) stuck: AtomicUsize,
    /// Agents that wait for their stuck threads to end.
    pub(crate) ending: AtomicUsize,
    /// Agents that were replaced because their threads were stuck.
    pub(crate) replaced: AtomicU64,
}

/// Makes an agent.
pub(crate) type OpenAgent = Box<dyn Fn() -> Result<Agent, Error> + Send>;

/// Fields are declared in the order in which they must end.
pub(crate) struct Lane {
    queue: VecDeque<Work>,
    posted: Vec<Posted>,
    staging: Staging,
    /// The caller's memory as the agent knows it, and its address range. Only without staging.
    direct: Option<((usize, usize), Arc<Registration>)>,
    /// None after one was replaced and the next could not be made.
    agent: Option<Arc<Agent>>,
    agent_retry: Option<Instant>,
    open: OpenAgent,
    options: LaneOptions,
    health: Arc<Health>,
    random: ChaCha8Rng,
    /// Transfers that succeeded in this step; empty between steps.
    moved: Vec<Transfer>,
    /// Set once intake has stopped: when what is left is given up.
    closing: Option<Instant>,
}

impl Lane {
    pub(crate) fn new(
        options: LaneOptions,
        open: OpenAgent,
        health: Arc<Health>,
        random: ChaCha8Rng,
    ) -> Result<Self, Error> {
        let agent = Some(Arc::new(open()?));
        Ok(Self {
            queue: VecDeque::new(),
            posted: Vec::new(),
            staging: Staging::new(options.staging_bytes),
            direct: None,
            agent,
            agent_retry: None,
            open,
            options,
            health,
            random,
            moved: Vec::new(),
            closing: None,
        })
    }

    /// Takes work, or ends it as `Closed`.
    pub(crate) fn accept(&mut self, batch: Vec<Work>) {
        if self.closing.is_none() {
            self.queue.extend(batch);
            return;
        }
        for work in batch {
            work.fail(ErrorKind::Closed, "the engine is closed");
        }
    }

    /// Stops intake. At `deadline`, what can be given up is.
    pub(crate) fn close(&mut self, deadline: Instant) {
        self.closing = Some(self.closing.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// Nobody is left who could ask: what has not started is dropped, what runs ends by itself or by its timeout.
    pub(crate) fn abandon(&mut self, now: Instant) {
        self.queue.clear();
        self.close(now + self.options.request_timeout);
    }

    /// Does everything that can be done without waiting. Says how many requests were over.
    pub(crate) fn step(&mut self, now: Instant) -> usize {
        let finished = self.settle_finished(now);
        self.give_up_late(now);
        if self.is_wedged() {
            self.replace_agent(now);
        }
        self.launch(now);
        if self.is_starved() {
            self.replace_agent(now);
            self.launch(now);
        }
        finished
    }

    /// Whether nothing is left to do: all that is posted, if anything, was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.closing.is_some()
            && self.queue.is_empty()
            && self.posted.iter().all(|posted| matches!(posted.owner, Owner::GivenUp))
    }

    /// Whether [`close`](Self::close) has waited long enough.
    pub(crate) fn is_past_closing(&self, now: Instant) -> bool {
        self.closing.is_some_and(|deadline| deadline <= now)
    }

    /// Whether more requests are posted than NIXL has threads for.
    pub(crate) fn is_busy(&self) -> bool {
        self.posted.len() > self.options.threads
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.posted.len()
    }

    /// How long nothing happens unless a request ends or work comes; `None` if for ever.
    pub(crate) fn quiet_for(&self, now: Instant) -> Option<Duration> {
        let queued = self.queue.iter().filter_map(Work::deadline);
        let posted = self.posted.iter().map(|posted| posted.give_up);
        let retry = self.agent_retry.filter(|_| !self.queue.is_empty());
        let next = queued.chain(posted).chain(self.closing).chain(retry).filter(|at| *at > now).min();
        next.map(|at| at - now)
    }

    fn settle_finished(&mut self, now: Instant) -> usize {
        let (mut finished, mut at) = (0, 0);
        while at < self.posted.len() {
            match self.posted[at].request.poll() {
                Some((local, result)) => {
                    let posted = self.posted.swap_remove(at);
                    finished += 1;
                    self.settle(posted, local, result, now);
                }
                None => at += 1,
            }
        }
        // Together: each completion may wake the tier's driver, which sends the next work.
        for transfer in self.moved.drain(..) {
            transfer.complete(Ok(()));
        }
        finished
    }

    /// Ends what is past its time, where nobody but NIXL's own buffer is left behind.
    fn give_up_late(&mut self, now: Instant) {
        let closed = self.is_past_closing(now);
        let is_late = |work: &Work| closed || work.deadline().is_some_and(|deadline| deadline <= now);
        if self.queue.iter().any(is_late) {
            for work in std::mem::take(&mut self.queue) {
                if is_late(&work) {
                    work.fail(ErrorKind::Timeout, "its time was over before it began");
                } else {
                    self.queue.push_back(work);
                }
            }
        }
        for posted in &mut self.posted {
            if matches!(posted.owner, Owner::Here(_)) && (closed || posted.give_up <= now) {
                let Owner::Here(work) = std::mem::replace(&mut posted.owner, Owner::GivenUp) else {
                    continue;
                };
                self.health.stuck.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(target: "kvtier::nixl", %work, "given up; its request still holds a staging buffer");
                work.fail(ErrorKind::Timeout, "no answer in time");
            }
        }
    }

    fn stuck(&self) -> usize {
        self.posted.iter().filter(|posted| matches!(posted.owner, Owner::GivenUp)).count()
    }

    /// Whether requests that were given up hold every thread of the agent, or every place in the window.
    fn is_wedged(&self) -> bool {
        self.stuck() >= self.options.threads.min(self.options.window)
    }

    /// Whether they hold every buffer.
    fn is_starved(&self) -> bool {
        !self.queue.is_empty() && !self.posted.is_empty() && self.stuck() == self.posted.len()
    }

    /// Gives the work a fresh agent, and the stuck one to a thread that waits for its end.
    fn replace_agent(&mut self, now: Instant) {
        if self.health.ending.load(Ordering::Relaxed) >= AGENTS_ENDING_MAX {
            self.fail_queue("every thread of NIXL is stuck in a request");
            return;
        }
        let Some(agent) = self.agent.take() else { return };
        tracing::error!(target: "kvtier::nixl", lane = self.options.name, "all threads are stuck; the agent is replaced");
        self.health.stuck.fetch_sub(self.stuck(), Ordering::Relaxed);
        self.health.replaced.fetch_add(1, Ordering::Relaxed);
        let mut posted = std::mem::take(&mut self.posted);
        for posted in &mut posted {
            if let Owner::Here(work) = std::mem::replace(&mut posted.owner, Owner::GivenUp) {
                work.fail(ErrorKind::Unavailable, "NIXL's threads were stuck in other requests");
            }
        }
        let staging = std::mem::replace(&mut self.staging, Staging::new(self.options.staging_bytes));
        end_elsewhere(Arc::clone(&self.health), (posted, staging, self.direct.take(), agent));
        self.agent_retry = Some(now);
    }

    /// The agent, made again if it was replaced.
    fn agent(&mut self, now: Instant) -> Option<Arc<Agent>> {
        if self.agent.is_none() && self.agent_retry.is_some_and(|at| at <= now) {
            match (self.open)() {
                Ok(agent) => self.agent = Some(Arc::new(agent)),
                Err(error) => {
                    tracing::error!(target: "kvtier::nixl", %error, "no new agent");
                    self.agent_retry = Some(now + AGENT_RETRY);
                }
            }
        }
        self.agent.clone()
    }

    fn fail_queue(&mut self, why: &str) {
        for work in std::mem::take(&mut self.queue) {
            work.fail(ErrorKind::Unavailable, why);
        }
    }
}

/// Drops `things` on a thread of their own, since NIXL waits for the end of what is stuck. Without a thread, they are
/// leaked.
fn end_elsewhere<T: Send + 'static>(health: Arc<Health>, things: T) {
    health.ending.fetch_add(1, Ordering::Relaxed);
    let things = ManuallyDrop::new(things);
    let ending = move || {
        drop(ManuallyDrop::into_inner(things));
        health.ending.fetch_sub(1, Ordering::Relaxed);
    };
    if let Err(error) = std::thread::Builder::new().name("kvtier-nixl-end".to_owned()).spawn(ending) {
        tracing::error!(target: "kvtier::nixl", %error, "no thread to end an agent; leaked");
    }
}

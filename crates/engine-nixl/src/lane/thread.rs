use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use kvtier_core::{Error, ErrorKind};
use tokio::sync::watch;

use super::{Lane, Work};

/// Shortest and longest time between two looks at running requests. A look costs 0.1 us per request, a wake-up
/// of the thread some 25 us.
const POLL_MIN: Duration = Duration::from_micros(50);
const POLL_MAX: Duration = Duration::from_millis(1);

enum Message {
    Work(Vec<Work>),
    Close(Instant),
}

/// The thread that owns a lane. Dropping this lets it end by itself.
pub(crate) struct LaneThread {
    inbox: Sender<Message>,
    /// True when a close has waited long enough, or everything is done.
    closed: watch::Receiver<bool>,
}

impl LaneThread {
    /// # Errors
    /// `Unavailable` if there is no thread to be had.
    pub(crate) fn start(lane: Lane) -> Result<Self, Error> {
        let (inbox, messages) = mpsc::channel();
        let (announce, closed) = watch::channel(false);
        let name = format!("kvtier-nixl-{}", lane.options.name);
        let thread = std::thread::Builder::new().name(name).spawn(move || run(lane, messages, &announce));
        thread.map_err(|error| {
            Error::with_source(ErrorKind::Unavailable, "no thread for the NIXL engine", error)
        })?;
        Ok(Self { inbox, closed })
    }

    /// Hands work over. Never blocks. If the thread has ended, the work is dropped, which ends it as `Closed`.
    pub(crate) fn send(&self, batch: Vec<Work>) {
        let _ = self.inbox.send(Message::Work(batch));
    }

    /// Tells the thread to stop intake and to give up at `deadline`.
    pub(crate) fn close(&self, deadline: Instant) {
        let _ = self.inbox.send(Message::Close(deadline));
    }

    /// Waits until a close is over.
    pub(crate) async fn closed(&self) {
        // An error means that the thread has ended.
        let _ = self.closed.clone().wait_for(|closed| *closed).await;
    }
}

fn run(mut lane: Lane, inbox: Receiver<Message>, announce: &watch::Sender<bool>) {
    let mut pace = POLL_MIN;
    let mut is_orphan = false;
    loop {
        let now = now();
        let finished = lane.step(now);
        if lane.is_over() {
            break;
        }
        if lane.is_past_closing(now) {
            announce.send_replace(true);
        }
        pace = next_pace(pace, finished, lane.in_flight());
        let wait = wait(&lane, now, pace);
        if is_orphan {
            std::thread::park_timeout(wait.unwrap_or(POLL_MAX));
            continue;
        }
        if let Some(wait) = wait
            && lane.is_busy()
        {
            // NIXL's threads have enough to do: no need to wake up for each message.
            std::thread::park_timeout(wait);
            is_orphan = drain(&mut lane, &inbox, now);
            continue;
        }
        let message = match wait {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait) => inbox.recv_timeout(wait),
        };
        match message {
            Ok(message) => {
                take(&mut lane, message);
                is_orphan = drain(&mut lane, &inbox, now);
                pace = POLL_MIN;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_orphan = drain(&mut lane, &inbox, now),
        }
    }
    // Before the lane, whose end may take for ever: what comes from now on is dropped by the sender.
    drop(inbox);
    if lane.in_flight() == 0 {
        drop(lane);
        announce.send_replace(true);
    } else {
        tracing::error!(
            target: "kvtier::nixl", requests = lane.in_flight(),
            "closed with stuck requests; their buffers and threads stay until they end"
        );
        announce.send_replace(true);
        // Waits for NIXL's threads, perhaps for ever; nobody waits for this thread.
        drop(lane);
    }
}

/// Takes what has come; says whether nothing can come any more.
fn drain(lane: &mut Lane, inbox: &Receiver<Message>, now: Instant) -> bool {
    loop {
        match inbox.try_recv() {
            Ok(message) => take(lane, message),
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                lane.abandon(now);
                return true;
            }
        }
    }
}

fn take(lane: &mut Lane, message: Message) {
    match message {
        Message::Work(batch) => lane.accept(batch),
        Message::Close(deadline) => lane.close(deadline),
    }
}

/// Aims at an eighth of what runs being over at each look.
fn next_pace(pace: Duration, finished: usize, in_flight: usize) -> Duration {
    let pace = if finished == 0 {
        pace * 2
    } else if finished > in_flight / 8 {
        pace / 2
    } else {
        pace
    };
    pace.clamp(POLL_MIN, POLL_MAX)
}

/// How long to wait for a message; `None` for as long as it takes.
fn wait(lane: &Lane, now: Instant, pace: Duration) -> Option<Duration> {
    let quiet = lane.quiet_for(now);
    if lane.in_flight() == 0 { quiet } else { Some(quiet.map_or(pace, |quiet| quiet.min(pace))) }
}

#[expect(clippy::disallowed_methods, reason = "the one clock of the engine")]
fn now() -> Instant {
    Instant::now()
}

use std::time::{Duration, Instant};

/// Longest wait that is kept to: "for ever" without overflowing the clock.
const WAIT_MAX: Duration = Duration::from_hours(24 * 365);

/// The moment `wait` after `now`.
pub(crate) fn later(now: Instant, wait: Duration) -> Instant {
    now + wait.min(WAIT_MAX)
}

use std::time::Duration;

/// When a block that failed for a [temporary](crate::Retry::Temporary) reason is tried again.
/// The tier alone retries; each try is a new transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Most tries of one block, the first included. At least 1.
    pub attempts_max: u8,
    /// Wait before the second try; doubles with each further one.
    pub backoff_first: Duration,
    /// Longest wait between two tries.
    pub backoff_max: Duration,
}

impl RetryPolicy {
    /// Every block is tried once.
    pub const NEVER: Self =
        Self { attempts_max: 1, backoff_first: Duration::ZERO, backoff_max: Duration::ZERO };

    /// How long to wait after the `attempt`-th try failed, or `None` if that was the last.
    pub(super) fn backoff_after(&self, attempt: u8) -> Option<Duration> {
        if attempt >= self.attempts_max {
            return None;
        }
        let doublings = u32::from(attempt.saturating_sub(1));
        let factor = 2_u32.saturating_pow(doublings);
        Some(self.backoff_first.saturating_mul(factor).min(self.backoff_max))
    }
}

impl Default for RetryPolicy {
    /// Three tries, 50 ms and 100 ms apart.
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff_first: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wait doubles up to its bound, and the last try has none after it.
    #[test]
    fn backoff_doubles_up_to_the_bound() {
        let policy = RetryPolicy {
            attempts_max: 5,
            backoff_first: Duration::from_millis(10),
            backoff_max: Duration::from_millis(35),
        };
        let waits: Vec<_> = (1..=5).map(|attempt| policy.backoff_after(attempt)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(waits, [ms(10), ms(20), ms(35), ms(35), None]);
        assert_eq!(RetryPolicy::NEVER.backoff_after(1), None);
    }
}

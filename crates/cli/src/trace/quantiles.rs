//! Draws whole numbers from a distribution given by its quantiles.

use rand_chacha::{ChaCha8Rng, rand_core::RngCore};

/// A distribution as the inverse of its cumulative function: pairs of (thousandths of the draws, value), from
/// (0, least) to (1000, greatest), both rising, with straight lines between them.
///
/// Whole-number arithmetic only: `exp` and `ln` differ between platforms in the last bit, and one such bit would
/// change every request that follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantiles(pub(super) &'static [(u32, u64)]);

impl Quantiles {
    /// Draws one value.
    pub(super) fn draw(self, rng: &mut ChaCha8Rng) -> u64 {
        const STEPS_PER_THOUSANDTH: u64 = 1_000;
        let place = below(rng, 1_000 * STEPS_PER_THOUSANDTH);
        let above = self.0.partition_point(|(part, _)| u64::from(*part) * STEPS_PER_THOUSANDTH <= place);
        let ((from, low), (to, high)) = (self.0[above - 1], self.0[above]);
        let width = u64::from(to - from) * STEPS_PER_THOUSANDTH;
        low + (high - low) * (place - u64::from(from) * STEPS_PER_THOUSANDTH) / width
    }
}

/// A number from 0 to `limit - 1`, each as likely as the others to within `limit / 2^32`.
pub(super) fn below(rng: &mut ChaCha8Rng, limit: u64) -> u64 {
    (u64::from(rng.next_u32()) * limit) >> 32
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    /// Draws stay inside the table and its quantiles come back: half of them lie below the 500th thousandth.
    #[test]
    fn draws_follow_the_table() {
        let table = Quantiles(&[(0, 10), (500, 20), (900, 100), (1_000, 1_000)]);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let draws: Vec<u64> = (0..10_000).map(|_| table.draw(&mut rng)).collect();
        assert!(draws.iter().all(|value| (10..1_000).contains(value)));
        for (limit, expected) in [(20, 5_000), (100, 9_000)] {
            let under = draws.iter().filter(|value| **value < limit).count();
            assert!(under.abs_diff(expected) < 200, "{under} draws under {limit}, seed 1");
        }
    }
}

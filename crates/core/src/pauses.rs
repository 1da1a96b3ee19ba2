//! How long to wait before trying again after a failure.

use std::time::Duration;

/// Pauses that double with each failure, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    /// Pauses from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        let first = if first.as_nanos() < longest.as_nanos() { first } else { longest };
        Self { first, longest, next: first }
    }

    /// The pause after one more failure.
    pub fn lengthen(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Returns to the first pause after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_a_success() {
        let mut pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(5));
        let seconds: Vec<_> = (0..5).map(|_| pauses.lengthen().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        pauses.reset();
        assert_eq!(pauses.lengthen().as_secs(), 1);
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let mut pauses = Pauses::new(Duration::from_secs(9), Duration::from_secs(5));
        assert_eq!(pauses.lengthen().as_secs(), 5);
    }
}

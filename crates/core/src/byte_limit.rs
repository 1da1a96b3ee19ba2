//! Limits how many bytes of messages are handled at once.

/// Limits the bytes of one result or batch. The first message may be of any size, so that a large message never gets
/// stuck.
#[derive(Debug, Clone, Copy)]
pub struct ByteLimit {
    max_bytes: usize,
    bytes: usize,
    empty: bool,
}

impl ByteLimit {
    /// A limit of `max_bytes`, or a single message of any size.
    pub const fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, empty: true }
    }

    /// Whether one more message of this size may be taken. Its size counts even if it is not taken, so no later
    /// message is admitted either.
    pub fn admits(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        std::mem::take(&mut self.empty) || self.bytes <= self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(max_bytes: usize, sizes: &[usize], taken: usize) {
        let mut limit = ByteLimit::new(max_bytes);
        assert_eq!(sizes.iter().take_while(|bytes| limit.admits(**bytes)).count(), taken);
    }

    #[test]
    fn messages_are_taken_up_to_the_limit_and_always_one() {
        check(10, &[4, 6, 1], 2);
        check(10, &[4, 7, 1], 1);
        check(10, &[11, 0], 1);
        check(0, &[0, 0, 1], 2);
        check(usize::MAX, &[usize::MAX, 1], 2);
        check(10, &[], 0);
    }
}

//! The id of a message, which says when it was sent: nothing needs to be kept for it.

use bezoar::MessageId;

/// Of which run a message is, which of its messages, and when it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Chosen by chance, so that no gateway takes a message for one that it knows.
    pub(super) run: u64,
    /// From 0.
    pub(super) number: u64,
    /// Since this program started to send.
    pub(super) micros: u64,
}

impl Stamp {
    pub(super) fn to_id(self) -> MessageId {
        let Self { run, number, micros } = self;
        MessageId::new(format!("{PREFIX}{run:016x}-{number}-{micros}"))
            .expect("a word and three numbers are an id")
    }

    /// None if this is the id of a message of somebody else.
    pub(super) fn read(id: &str) -> Option<Self> {
        let mut parts = id.strip_prefix(PREFIX)?.split('-');
        let run = u64::from_str_radix(parts.next()?, 16).ok()?;
        let (number, micros) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { run, number, micros })
    }
}

const PREFIX: &str = "bench-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back() {
        for stamp in [
            Stamp { run: 0, number: 0, micros: 0 },
            Stamp { run: u64::MAX, number: u64::MAX, micros: u64::MAX },
        ] {
            assert_eq!(Stamp::read(stamp.to_id().as_str()), Some(stamp));
        }
    }

    #[test]
    fn other_ids_have_none() {
        for id in ["", "bench-", "bench-1-2", "bench-1-2-3-4", "bench-x-2-3", "019a-1-2-3"] {
            assert_eq!(Stamp::read(id), None, "{id}");
        }
    }
}

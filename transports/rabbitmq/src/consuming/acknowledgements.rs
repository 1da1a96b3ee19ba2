//! Acknowledging many delivery tags with few frames.
//!
//! `multiple` acknowledges every tag up to the given one. So only tags below the lowest open tag, one that is neither
//! acknowledged nor rejected, may be acknowledged together; each of the others needs a frame of its own.

use futures_util::future::try_join_all;
use lapin::{Channel, options::BasicAckOptions};

/// A `basic.ack` to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) tag: u64,
    /// Acknowledges every tag up to this one.
    pub(crate) multiple: bool,
}

/// How to acknowledge `tags`, none of which is open any more.
pub(crate) fn group(mut tags: Vec<u64>, lowest_open: Option<u64>) -> Vec<Ack> {
    tags.sort_unstable();
    let together = tags.partition_point(|tag| lowest_open.is_none_or(|lowest| *tag < lowest));
    let first = tags[..together].last().map(|tag| Ack { tag: *tag, multiple: together > 1 });
    let others = tags[together..].iter().map(|tag| Ack { tag: *tag, multiple: false });
    first.into_iter().chain(others).collect()
}

/// Writes acknowledgements. All of them are handed to lapin before the first is awaited: it completes each only when its
/// I/O thread has written it, and one by one would cost a switch of threads each.
pub(crate) async fn write(channel: &Channel, acks: Vec<Ack>) -> lapin::Result<()> {
    let write = |ack: Ack| channel.basic_ack(ack.tag, BasicAckOptions { multiple: ack.multiple });
    try_join_all(acks.into_iter().map(write)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tags: &[u64], lowest_open: Option<u64>, expected: &[(u64, bool)]) {
        let acks: Vec<_> = group(tags.to_vec(), lowest_open);
        let acks: Vec<_> = acks.iter().map(|ack| (ack.tag, ack.multiple)).collect();
        assert_eq!(acks, expected);
    }

    #[test]
    fn only_tags_below_the_lowest_open_one_are_acknowledged_together() {
        check(&[3, 1, 2], None, &[(3, true)]);
        check(&[1, 2], Some(3), &[(2, true)]);
        check(&[2, 3], Some(1), &[(2, false), (3, false)]);
        check(&[1, 2, 4], Some(3), &[(2, true), (4, false)]);
        check(&[7], None, &[(7, false)]);
        check(&[], None, &[]);
        check(&[5, 2], Some(9), &[(5, true)]);
    }
}

//! What happens to an envelope that this program cannot read.

use bezoar_core::{Code, Reason};

use crate::{connection::queue_client::Fetched, wire::stored_text::Content};

/// Why the message is dead-lettered; `None` if it is left alone for now, because a newer program may be
/// among the consumers.
pub(crate) fn judge(content: &Content, fetched: &Fetched, most: u32) -> Option<Reason> {
    match content {
        Content::Message(_) => None,
        Content::Damaged => Some(Reason::undecodable()),
        Content::Newer(_) if fetched.dequeue_count <= most => None,
        Content::Newer(version) => {
            let text = format!("its envelope has version {version}; upgrade, then replay it");
            Some(Reason::new(Code::UNDECODABLE, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::millis;

    use super::*;
    use crate::connection::queue_client::PopReceipt;

    #[test]
    fn a_newer_envelope_is_left_alone_a_few_times() {
        let judged = |content: &Content, dequeue_count| {
            let (id, pop_receipt, text) = (String::new(), PopReceipt::default(), String::new());
            let fetched = Fetched { id, pop_receipt, text, dequeue_count, inserted_at: millis(0) };
            judge(content, &fetched, 5).map(|reason| reason.to_string())
        };
        assert_eq!(judged(&Content::Damaged, 1).unwrap(), "Failed to deserialize message");
        assert_eq!(judged(&Content::Newer(2), 5), None);
        assert!(judged(&Content::Newer(2), 6).unwrap().contains("version 2; upgrade"));
    }
}

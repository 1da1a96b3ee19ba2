//! A replay that is wrong on purpose: what it has sent is kept in memory, and written down only after each hundred.

use crate::evidence::{Call, Evidence, Item, is_poison};

/// Replays so many messages and is killed so often, each time in the middle of a hundred.
pub(crate) fn replay(messages: u64, kills: u64) -> Evidence {
    let (mut written, mut calls) = (0, Vec::new());
    for kill in 0..=kills {
        let end = if kill == kills { messages } else { messages / (kills + 1) * (kill + 1) + 50 };
        let from = written;
        for number in from..end {
            calls.push(Call {
                replay: "1".to_owned(),
                message: format!("m-{number}"),
                delivery: 1,
                redelivered: false,
            });
            if (number + 1) % 100 == 0 {
                written = number + 1;
            }
        }
    }
    let state = |message: &str| if is_poison(message) { "failed_again" } else { "completed" };
    let item = |number| {
        let message = format!("m-{number}");
        Item { state: state(&message).to_owned(), message }
    };
    let items: Vec<_> = (0..messages).map(item).collect();
    let dead = items.iter().filter(|item| is_poison(&item.message)).count() as u64;
    Evidence { replay: "1".to_owned(), messages, items, dead, calls }
}

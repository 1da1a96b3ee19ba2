//! The ledger as headers.

use bezoar_core::{Ledger, QueueName};
use lapin::types::AMQPValue;

use super::{
    header_names::{
        ACQUIRED, DROPPED, FAILED, HISTORY, OURS, RELEASED, REPLAY, REPLAYED, UNCOUNTED,
    },
    header_size,
    header_table::{Table, number, string, text},
    history, uncounted,
};

/// Reserved for the names of dropped headers.
const NOTE_BYTES: usize = 1_024;

/// Adds the counters, and as much of the history as there is room for. A replay is named together with its `queue`: the
/// exchange may route copies to other queues, whose outcomes say nothing about the replay.
pub(super) fn write(headers: &mut Table, ledger: &Ledger, queue: Option<&QueueName>) {
    let counts = [
        (ACQUIRED, ledger.acquired),
        (FAILED, ledger.failed),
        (RELEASED, ledger.released),
        (REPLAYED, ledger.replayed),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        headers.insert(name.into(), AMQPValue::LongLongInt(count.into()));
    }
    if let Some((replay, queue)) = ledger.replay.zip(queue) {
        headers.insert(REPLAY.into(), text(&format!("{replay} {queue}")));
    }
    if let Some(uncounted) = &ledger.uncounted {
        headers.insert(UNCOUNTED.into(), text(&uncounted::write(uncounted)));
    }
    make_room(headers);
    let room = header_size::LIMIT_BYTES.saturating_sub(header_size::of_table(headers) + 64);
    if ledger.history().is_empty() {
        return;
    }
    let mut fitted = ledger.clone();
    if fitted.fit(|it| history::write(it.history()).len() <= room) && !fitted.history().is_empty() {
        headers.insert(HISTORY.into(), text(&history::write(fitted.history())));
    }
}

/// Drops the largest headers of another client if they leave no room for ours, and records their names. A client may
/// fill a frame to the last byte; a message that could not be republished would be stuck forever.
fn make_room(headers: &mut Table) {
    let mut dropped = Vec::new();
    while header_size::of_table(headers) + NOTE_BYTES > header_size::LIMIT_BYTES {
        let theirs = headers.iter().filter(|(name, _)| !name.as_str().starts_with(OURS));
        let Some((largest, _)) = theirs.max_by_key(|(_, value)| header_size::of_value(value))
        else {
            break;
        };
        let largest = largest.clone();
        headers.remove(&largest);
        dropped.push(largest.to_string());
    }
    if !dropped.is_empty() {
        let mut names = dropped.join(" ");
        names.truncate(names.floor_char_boundary(NOTE_BYTES - 64));
        headers.insert(DROPPED.into(), text(&names));
    }
}

/// The ledger of a message in `queue`.
pub(super) fn read(headers: &Table, queue: &QueueName) -> Ledger {
    let count = |name| number(headers, name).unwrap_or(0).clamp(0, u32::MAX.into()) as u32;
    let history = string(headers, HISTORY).map(|text| history::read(&text)).unwrap_or_default();
    let (acquired, failed) = (count(ACQUIRED), count(FAILED));
    // A forged header must not hide deliveries without an outcome.
    let released = count(RELEASED).min(acquired.saturating_sub(failed));
    let mut ledger = Ledger::restored(acquired, failed, released, count(REPLAYED), history);
    let replay = string(headers, REPLAY);
    let replay = replay.as_deref().and_then(|text| text.split_once(' '));
    let replay = replay.filter(|(_, replayed_to)| *replayed_to == queue.as_str());
    ledger.replay = replay.and_then(|(replay, _)| replay.parse().ok());
    ledger.uncounted = string(headers, UNCOUNTED).and_then(|text| uncounted::read(&text));
    ledger
}

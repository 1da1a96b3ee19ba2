//! Dead letters that stay on the broker: listed, sent back, removed.

use std::collections::{BTreeMap, HashSet};

use bezoar_core::{
    DeadLetter, DeadLetterId, DeadLetterIds, DeadLetterPage, QueueName, TransportError,
};
use lapin::options::QueuePurgeOptions;

use crate::{
    dead_letters::dead_letter_scan::ScanAction,
    error::for_queue,
    publishing::publisher::Publication,
    topology::DEAD_EXCHANGE,
    transport::TransportState,
    wire::{self, Raw, origin},
};

/// The most bytes of bodies on a page; the first is shown whatever its size.
const PAGE_LIMIT_BYTES: usize = 64 * 1024 * 1024;

impl TransportState {
    /// A page of dead letters, by id.
    pub(crate) async fn page(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let after = page.after.unwrap_or(DeadLetterId(i64::MIN));
        let mut found = BTreeMap::new();
        let most = page.limit.get() as usize;
        self.scan_dead_letters(queue, "dead_letters", |raw| {
            let (letter, stamp) = self.identify(queue, raw);
            if letter.id > after {
                found.insert(letter.id, letter);
            }
            if found.len() > most {
                found.pop_last();
            }
            ScanAction::stamped(stamp)
        })
        .await?;
        Ok(within_bytes(found.into_values()))
    }

    /// Sends the selected ones back to where they came from; says how many.
    pub(crate) async fn replay_dead(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        let mut chosen = Chosen::new(selection);
        self.scan_dead_letters(queue, "replay", |raw| {
            let (mut letter, stamp) = self.identify(queue, raw);
            match chosen.choose(&letter) {
                Choice::No => ScanAction::stamped(stamp),
                Choice::Again => ScanAction::Remove,
                Choice::Yes => {
                    letter.message.ledger.replay();
                    let replay_target = origin::replay_target(raw, &letter.message, &self.user);
                    ScanAction::Return(Box::new((replay_target, raw.body.clone())))
                }
            }
        })
        .await?;
        Ok(chosen.count())
    }

    /// Removes the selected ones; says how many.
    pub(crate) async fn discard_dead(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        if *selection == DeadLetterIds::All {
            return self.discard_all(queue).await;
        }
        let mut chosen = Chosen::new(selection);
        self.scan_dead_letters(queue, "discard", |raw| {
            let (letter, stamp) = self.identify(queue, raw);
            match chosen.choose(&letter) {
                Choice::No => ScanAction::stamped(stamp),
                Choice::Yes | Choice::Again => ScanAction::Remove,
            }
        })
        .await?;
        Ok(chosen.count())
    }

    /// The broker does it at once, however many they are.
    async fn discard_all(&self, queue: &QueueName) -> Result<u64, TransportError> {
        let name = self.dead_queue_name(queue, "discard")?;
        let _turn = self.dead_turn.lock().await;
        let channel = self.dead.channel("discard").await?;
        let discard = channel.queue_purge(name.into(), QueuePurgeOptions::default());
        let discarded = self.dead.with_timeout(discard, "discard").await?;
        discarded.map(u64::from).map_err(|source| for_queue(&source, queue, "discard"))
    }

    /// The letter; one that the broker has put there gets an id, and a copy that has it is to replace it.
    pub(crate) fn identify(
        &self,
        queue: &QueueName,
        raw: &Raw,
    ) -> (DeadLetter, Option<Publication>) {
        let now = self.options.clock.now();
        if let Some(letter) = wire::read_dead_letter(raw, queue, now) {
            return (letter, None);
        }
        let ((reason, at), id) = (wire::broker_reason(raw, now), self.ids.next(now));
        let message = wire::read(raw, now);
        let copy = Publication {
            exchange: DEAD_EXCHANGE.into(),
            key: queue.as_str().into(),
            properties: wire::dead_lettered(raw, &message, (id, at, &reason)),
            body: raw.body.clone(),
        };
        (DeadLetter { id, queue: queue.clone(), message, reason, at }, Some(copy))
    }
}

/// A selection, and what of it was found.
struct Chosen {
    ids: Option<HashSet<DeadLetterId>>,
    found: HashSet<(DeadLetterId, u64)>,
}

enum Choice {
    Yes,
    No,
    /// A copy of one that was chosen before.
    Again,
}

impl Chosen {
    fn new(selection: &DeadLetterIds) -> Self {
        let ids = match selection {
            DeadLetterIds::All => None,
            DeadLetterIds::Ids(ids) => Some(ids.iter().copied().collect()),
        };
        Self { ids, found: HashSet::new() }
    }

    fn choose(&mut self, letter: &DeadLetter) -> Choice {
        match self.ids.as_ref().is_none_or(|ids| ids.contains(&letter.id)) {
            false => Choice::No,
            true if self.found.insert((letter.id, letter.digest())) => Choice::Yes,
            true => Choice::Again,
        }
    }

    fn count(&self) -> u64 {
        self.found.len() as u64
    }
}

fn within_bytes(letters: impl Iterator<Item = DeadLetter>) -> Vec<DeadLetter> {
    let (mut bytes, mut listed) = (0, Vec::new());
    for letter in letters {
        bytes += letter.message.body.len();
        if bytes > PAGE_LIMIT_BYTES && !listed.is_empty() {
            break;
        }
        listed.push(letter);
    }
    listed
}

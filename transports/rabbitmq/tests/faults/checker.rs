//! Records what happens to each message, and checks that promises were kept.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Mutex, PoisonError},
};

use bezoar_core::TransportError;

/// What happened to one message.
#[derive(Debug, Default, Clone)]
struct Fate {
    /// Sending it was tried; it may have arrived.
    tried: bool,
    /// The transport accepted it.
    accepted: bool,
    /// It was retried after a delay.
    delayed: bool,
    /// How often it was delivered with the redelivered flag.
    flagged: u32,
    /// Whether dead-lettering it succeeded.
    set_aside: bool,
    /// It was handled, but it is unknown whether the outcome is stored.
    perhaps_done: bool,
    /// How often it was completed or found as a dead letter.
    ends: u32,
    /// The last events, for finding the reason of a failure.
    trail: Vec<String>,
}

impl Fate {
    fn is_missed(&self) -> bool {
        self.accepted && self.ends == 0 && !self.perhaps_done
    }
}

/// Records what happens to all messages, by id.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    fates: Mutex<BTreeMap<String, Fate>>,
    /// The last error, in case nothing makes progress.
    trouble: Mutex<String>,
}

/// The violations that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) accepted: usize,
    /// Accepted, but neither completed nor dead-lettered as far as is known.
    pub(crate) lost: Vec<String>,
    /// Never sent, or with another body.
    pub(crate) made_up: Vec<String>,
    /// Completed more than once without a redelivered flag. Delayed messages are excepted, because a broker that dies
    /// may move an expired message twice without a flag.
    pub(crate) unflagged: Vec<String>,
    /// How many completions were duplicates.
    pub(crate) duplicates: u32,
}

impl Checker {
    fn note(&self, id: &str, change: impl FnOnce(&mut Fate)) {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        change(fates.entry(id.to_owned()).or_default());
    }

    pub(crate) fn tried(&self, id: &str) {
        self.note(id, |fate| fate.tried = true);
    }

    pub(crate) fn accepted(&self, id: &str) {
        self.note(id, |fate| fate.accepted = true);
    }

    /// It was delivered, with this body.
    pub(crate) fn handed_out(&self, id: &str, body: &[u8], redelivered: bool) {
        let as_sent = body == body_of(id).as_bytes();
        self.note(id, |fate| {
            fate.tried &= as_sent;
            fate.flagged += u32::from(redelivered);
        });
    }

    pub(crate) fn delayed(&self, id: &str) {
        self.note(id, |fate| fate.delayed = true);
    }

    /// Records an event, for finding the reason of a failure.
    pub(crate) fn happened(&self, id: &str, what: String) {
        const MOST: usize = 20;
        self.note(id, |fate| {
            fate.trail.push(what);
            let surplus = fate.trail.len().saturating_sub(MOST);
            fate.trail.drain(..surplus);
        });
    }

    pub(crate) fn perhaps_done(&self, id: &str) {
        self.note(id, |fate| fate.perhaps_done = true);
    }

    pub(crate) fn set_aside(&self, id: &str) {
        self.note(id, |fate| fate.set_aside = true);
    }

    pub(crate) fn ended(&self, id: &str) {
        self.note(id, |fate| fate.ends += 1);
    }

    pub(crate) fn trouble(&self, failed: &TransportError) {
        let source = failed.source().map(ToString::to_string).unwrap_or_default();
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) =
            format!("{failed} ({source})");
    }

    pub(crate) fn last_trouble(&self) -> String {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many accepted messages are neither completed nor dead-lettered yet.
    pub(crate) fn open(&self) -> usize {
        let fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |fate: &&Fate| fate.is_missed() && !fate.set_aside;
        fates.values().filter(is_open).count()
    }

    /// How many messages were completed, duplicates included.
    pub(crate) fn ends(&self) -> u32 {
        let fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        fates.values().map(|fate| fate.ends).sum()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = |wrong: fn(&Fate) -> bool| {
            let found = fates.iter().filter(|(_, fate)| wrong(fate));
            found.map(|(id, fate)| format!("{id} {:?}", fate.trail)).collect()
        };
        Verdict {
            accepted: fates.values().filter(|fate| fate.accepted).count(),
            lost: ids(Fate::is_missed),
            made_up: ids(|fate| !fate.tried),
            unflagged: ids(|fate| !fate.delayed && fate.ends.saturating_sub(1) > fate.flagged),
            duplicates: fates.values().map(|fate| fate.ends.saturating_sub(1)).sum(),
        }
    }
}

impl Verdict {
    /// Asserts that nothing went wrong, and that there are no more duplicates than messages were in flight.
    #[track_caller]
    pub(crate) fn assert_kept(&self, most_duplicates: u32) {
        assert!(self.accepted > 0, "something was sent");
        assert!(self.lost.is_empty(), "lost: {:?}", self.lost);
        assert!(self.made_up.is_empty(), "made up: {:?}", self.made_up);
        assert!(self.unflagged.is_empty(), "duplicates without a flag: {:?}", self.unflagged);
        assert!(self.duplicates <= most_duplicates, "{} duplicates", self.duplicates);
    }
}

/// The body that a message with this id has.
pub(crate) fn body_of(id: &str) -> String {
    format!("the body of {id}")
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let checker = Checker::default();
    for id in ["good", "lost", "twice", "flagged"] {
        checker.tried(id);
        checker.accepted(id);
    }
    checker.handed_out("good", b"the body of good", false);
    checker.ended("good");
    for redelivered in [false, true] {
        checker.handed_out("twice", b"the body of twice", false);
        checker.ended("twice");
        checker.handed_out("flagged", b"the body of flagged", redelivered);
        checker.ended("flagged");
    }
    checker.tried("changed");
    checker.handed_out("changed", b"something else", false);
    checker.handed_out("unknown", b"the body of unknown", false);
    let verdict = checker.verdict();
    assert_eq!(verdict.lost, ["lost []"]);
    assert_eq!(verdict.made_up, ["changed []", "unknown []"]);
    assert_eq!(verdict.unflagged, ["twice []"]);
    assert_eq!((verdict.accepted, verdict.duplicates), (4, 2));
}

//! The observer's notes: what was started, and what was promised.
//!
//! `may 7 21 ready 1 1 0 0`: intention 7 starts, and message 21 may now get this state. `ok 7 21`: it
//! was acknowledged. `is 21 leased 2 1 0 0`: message 21 was received. `queue`: the queue was
//! provisioned.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use bezoar_core::Ledger;

use super::log::PROMISE_LOG;

/// Messages are numbered; the number is the id.
pub(crate) type MessageNumber = u32;

/// The place and the counters of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) place: Place,
    /// Acquired, failed, released, replayed.
    pub(crate) counters: [u32; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Absent,
    /// Ready or delayed.
    Ready,
    Leased,
    Dead,
}

impl State {
    pub(crate) const ABSENT: Self = Self { place: Place::Absent, counters: [0; 4] };

    pub(crate) fn new(place: Place, ledger: &Ledger) -> Self {
        let counters = [ledger.acquired, ledger.failed, ledger.released, ledger.replayed];
        Self { place, counters }
    }

    /// The state after it is received.
    fn received(mut self) -> Option<Self> {
        self.counters[0] += 1;
        (self.place == Place::Ready).then_some(Self { place: Place::Leased, ..self })
    }

    fn read(words: &[&str]) -> Self {
        let [place, counters @ ..] = words else { panic!("a state has a place") };
        let place = match *place {
            "absent" => Place::Absent,
            "ready" => Place::Ready,
            "leased" => Place::Leased,
            "dead" => Place::Dead,
            other => panic!("there is no place {other}"),
        };
        let counters: Vec<u32> = counters.iter().map(|word| number(word)).collect();
        Self { place, counters: counters.try_into().expect("a state has four counters") }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Absent => "absent",
            Place::Ready => "ready",
            Place::Leased => "leased",
            Place::Dead => "dead",
        };
        let [acquired, failed, released, replayed] = self.counters;
        write!(f, "{place} {acquired} {failed} {released} {replayed}")
    }
}

/// The promise log of a running workload.
#[derive(Debug)]
pub(crate) struct PromiseLog {
    file: File,
    intentions: AtomicU64,
}

/// A change that was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intention {
    number: u64,
    message: MessageNumber,
}

impl PromiseLog {
    pub(crate) fn open(folder: &Path) -> Self {
        let path = folder.join(PROMISE_LOG);
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Self { file, intentions: AtomicU64::new(0) }
    }

    pub(crate) fn may(&self, message: MessageNumber, state: State) -> Intention {
        let number = self.intentions.fetch_add(1, Ordering::Relaxed);
        self.write(&format!("may {number} {message} {state}"));
        Intention { number, message }
    }

    pub(crate) fn ok(&self, Intention { number, message }: Intention) {
        self.write(&format!("ok {number} {message}"));
    }

    pub(crate) fn is(&self, message: MessageNumber, state: State) {
        self.write(&format!("is {message} {state}"));
    }

    pub(crate) fn queue(&self) {
        self.write("queue");
    }

    /// Writes a line in one call, so that it is one step of the log.
    fn write(&self, line: &str) {
        let written = (&self.file).write(line.as_bytes()).unwrap();
        assert_eq!(written, line.len());
    }
}

/// The content of the promise log up to some moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    /// The number of notes read: while it is the same, so are the promises.
    pub(crate) notes: usize,
    pub(crate) queue: bool,
    messages: BTreeMap<MessageNumber, Promise>,
}

#[derive(Debug, Clone)]
struct Promise {
    now: State,
    /// The states that it may have through intentions that are not acknowledged. There are several if a failed one is
    /// followed by another, such as the replay of a message whose dead-lettering failed with an unknown outcome.
    next: Vec<(u64, State)>,
}

impl Promises {
    pub(crate) fn follow(&mut self, note: &str) {
        self.notes += 1;
        let words: Vec<&str> = note.split(' ').collect();
        match words[..] {
            ["queue"] => self.queue = true,
            ["may", intention, message, ref state @ ..] => {
                self.of(message).next.push((number(intention), State::read(state)));
            }
            ["ok", intention, message] => self.of(message).acknowledge(number(intention)),
            ["is", message, ref state @ ..] => {
                *self.of(message) = Promise { now: State::read(state), next: Vec::new() };
            }
            _ => panic!("a note that nobody understands: {note}"),
        }
    }

    fn of(&mut self, message: &str) -> &mut Promise {
        let unknown = Promise { now: State::ABSENT, next: Vec::new() };
        self.messages.entry(number(message)).or_insert(unknown)
    }

    /// Every message that the workload started to send.
    pub(crate) fn messages(&self) -> impl Iterator<Item = MessageNumber> {
        self.messages.keys().copied()
    }

    pub(crate) fn knows(&self, message: MessageNumber) -> bool {
        self.messages.contains_key(&message)
    }

    /// Checks whether a message may be in this state; the error says what was promised.
    pub(crate) fn check(&self, message: MessageNumber, found: State) -> Result<(), String> {
        let Some(Promise { now, next }) = self.messages.get(&message) else {
            return Err(format!("message {message}: nobody sent it, and it is {found}"));
        };
        let candidates = std::iter::once(*now).chain(next.iter().map(|(_, state)| *state));
        let mut allowed = candidates.flat_map(|state| [Some(state), state.received()]);
        if allowed.any(|allowed| allowed == Some(found)) {
            return Ok(());
        }
        let next: String = next.iter().map(|(_, state)| format!(" or {state}")).collect();
        Err(format!("message {message}: promised {now}{next}, found {found}"))
    }
}

impl Promise {
    /// If the message has been received meanwhile, the acknowledgement was recorded late and adds nothing.
    fn acknowledge(&mut self, intention: u64) {
        if let Some(at) = self.next.iter().position(|(number, _)| *number == intention) {
            self.now = self.next[at].1;
            self.next.drain(..=at);
        }
    }
}

fn number<T: std::str::FromStr<Err: fmt::Debug>>(word: &str) -> T {
    word.parse().expect("a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promises(notes: &[&str]) -> Promises {
        let mut promises = Promises::default();
        notes.iter().for_each(|note| promises.follow(note));
        promises
    }

    #[track_caller]
    fn check(notes: &[&str], allowed: &[&str], refused: &[&str]) {
        let promises = promises(notes);
        let check = |state: &str| promises.check(1, State::read(&Vec::from_iter(state.split(' '))));
        allowed.iter().for_each(|state| check(state).unwrap());
        refused.iter().for_each(|state| drop(check(state).unwrap_err()));
    }

    const ABSENT: &str = "absent 0 0 0 0";
    const READY: &str = "ready 0 0 0 0";
    const LEASED: &str = "leased 1 0 0 0";

    #[test]
    fn what_was_begun_may_have_happened_and_what_was_acknowledged_has() {
        check(&[], &[], &[READY]);
        check(&["may 0 1 ready 0 0 0 0"], &[ABSENT, READY, LEASED], &["dead 1 1 0 0"]);
        check(&["may 0 1 ready 0 0 0 0", "ok 0 1"], &[READY, LEASED], &[ABSENT]);
    }

    #[test]
    fn a_late_acknowledgement_promises_nothing_of_a_later_intention() {
        let notes = ["may 0 1 ready 0 0 0 0", "is 1 leased 1 0 0 0", "may 1 1 absent 0 0 0 0"];
        check(&notes, &[LEASED, ABSENT], &[READY]);
        check(&[&notes[..], &["ok 0 1"]].concat(), &[LEASED, ABSENT], &[READY]);
        check(&[&notes[..], &["ok 1 1"]].concat(), &[ABSENT], &[LEASED, READY]);
    }

    #[test]
    fn what_failed_may_have_happened_even_if_something_else_follows() {
        let (dead, replayed) = ("dead 1 1 0 0", "ready 0 0 0 1");
        let notes = ["is 1 leased 1 0 0 0", "may 0 1 dead 1 1 0 0", "may 1 1 ready 0 0 0 1"];
        check(&notes, &[LEASED, dead, replayed], &[ABSENT]);
        check(&[&notes[..], &["ok 1 1"]].concat(), &[replayed], &[LEASED, dead]);
    }
}

//! What was sent and what arrived while gateways were killed, and what is wrong with it (pure).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

/// Whether a request was answered, or cut off by a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Yes,
    No,
}

/// What is known in the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) sent: BTreeSet<String>,
    /// When each message arrived, in order, and whether it was answered.
    pub(crate) arrived: BTreeMap<String, Vec<(Instant, Answered)>>,
    pub(crate) kills: Vec<Instant>,
    /// The most messages that one gateway has in flight.
    pub(crate) in_flight: usize,
    /// Within what time after a kill a message must be picked up.
    pub(crate) picked_up_within: Duration,
}

/// What is wrong. Empty if every promise was kept.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    pub(crate) lost: Vec<String>,
    /// How many arrived again beyond those that were in flight.
    pub(crate) excess: usize,
    /// Messages that arrived again, or for the first time after the last kill, too late.
    pub(crate) late: Vec<String>,
}

impl Evidence {
    pub(crate) fn judge(&self) -> Verdict {
        let lost = self.sent.iter().filter(|it| self.answers(it) == 0).cloned();
        let late = self.arrived.iter().filter(|(_, times)| self.is_late(times));
        Verdict {
            lost: lost.collect(),
            excess: self.duplicates().saturating_sub(self.kills.len() * self.in_flight),
            late: late.map(|(id, _)| id.clone()).collect(),
        }
    }

    pub(crate) fn duplicates(&self) -> usize {
        self.arrived.keys().map(|id| self.answers(id).saturating_sub(1)).sum()
    }

    fn answers(&self, id: &str) -> usize {
        let requests = self.arrived.get(id).into_iter().flatten();
        requests.filter(|(_, answered)| *answered == Answered::Yes).count()
    }

    /// The longest time between a kill and the next arrival of a message that had arrived before it.
    pub(crate) fn longest_wait(&self) -> Duration {
        let waits = self.arrived.values().flat_map(|times| self.waits(times));
        waits.max().unwrap_or_default()
    }

    fn is_late(&self, times: &[(Instant, Answered)]) -> bool {
        self.waits(times).any(|wait| wait > self.picked_up_within)
    }

    /// How long after the kill that made it necessary each repetition came.
    fn waits<'a>(
        &'a self,
        times: &'a [(Instant, Answered)],
    ) -> impl Iterator<Item = Duration> + 'a {
        times.windows(2).filter_map(|pair| {
            let (first, next) = (pair[0].0, pair[1].0);
            let between = self.kills.iter().filter(|kill| **kill >= first && **kill <= next);
            between.max().map(|kill| next - *kill)
        })
    }
}

/// The figures.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, sent {}, arrived {}, duplicates {} (at most {}), longest wait {:.1} s (at most {:.1} s)",
            self.kills.len(),
            self.sent.len(),
            self.arrived.len(),
            self.duplicates(),
            self.kills.len() * self.in_flight,
            self.longest_wait().as_secs_f64(),
            self.picked_up_within.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Answered::Yes, *};

    /// Message a arrived once, b before and after the only kill.
    fn evidence(start: Instant) -> Evidence {
        let at = |seconds| start + Duration::from_secs(seconds);
        Evidence {
            sent: ["a", "b"].map(ToOwned::to_owned).into(),
            arrived: [("a", vec![(at(1), Yes)]), ("b", vec![(at(1), Yes), (at(7), Yes)])]
                .map(|(id, times)| (id.to_owned(), times))
                .into(),
            kills: vec![at(2)],
            in_flight: 1,
            picked_up_within: Duration::from_secs(5),
        }
    }

    #[test]
    fn good_evidence_is_found_good() {
        let evidence = evidence(Instant::now());
        assert_eq!(evidence.judge(), Verdict::default());
        assert_eq!((evidence.duplicates(), evidence.longest_wait()), (1, Duration::from_secs(5)));
    }

    #[test]
    fn every_kind_of_violation_is_found() {
        let start = Instant::now();
        let mut lost = evidence(start);
        lost.arrived.remove("a");
        assert_eq!(lost.judge().lost, ["a"]);
        let mut cut_off = evidence(start);
        cut_off.arrived.insert("a".to_owned(), vec![(start, Answered::No)]);
        assert_eq!(cut_off.judge().lost, ["a"]);
        let mut more = evidence(start);
        more.in_flight = 0;
        assert_eq!(more.judge().excess, 1);
        let mut late = evidence(start);
        late.picked_up_within = Duration::from_secs(4);
        assert_eq!(late.judge().late, ["b"]);
    }
}

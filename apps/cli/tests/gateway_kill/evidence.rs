//! What was promised and what was seen, and what is wrong with it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// A request that the endpoint answered with success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Whether it had the bytes that belong to its id.
    pub(crate) intact: bool,
    /// Whether it said that it may have come before.
    pub(crate) redelivered: bool,
}

/// All that is known in the end, when nothing waits any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// Ids that were ever sent, whatever came of it.
    pub(crate) asked: HashSet<String>,
    /// Those that were answered with 202.
    pub(crate) accepted: HashSet<String>,
    /// Those that the endpoint took.
    pub(crate) delivered: HashMap<String, Vec<Delivery>>,
    /// Those that were set aside.
    pub(crate) dead: HashSet<String>,
    /// Those that the endpoint refuses for good.
    pub(crate) poison: HashSet<String>,
    /// How many can have been in flight at the kills, all together.
    pub(crate) in_flight: usize,
}

/// What is wrong. Empty if every promise was kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) lost: Vec<String>,
    pub(crate) made_up: Vec<String>,
    pub(crate) altered: Vec<String>,
    /// Set aside although the endpoint would take it.
    pub(crate) given_up: Vec<String>,
    /// Came again without saying so.
    pub(crate) unflagged: Vec<String>,
    /// How many came again beyond those that were in flight.
    pub(crate) excess: usize,
}

impl Evidence {
    pub(crate) fn judge(&self) -> Verdict {
        let arrived = |id: &&String| self.delivered.contains_key(*id) || self.dead.contains(*id);
        let seen = || self.delivered.keys().chain(&self.dead);
        let having = |wrong: fn(&[Delivery]) -> bool| {
            let ids = self.delivered.iter().filter(|(_, all)| wrong(all));
            ids.map(|(id, _)| id.clone()).collect()
        };
        Verdict {
            lost: self.accepted.iter().filter(|id| !arrived(id)).cloned().collect(),
            made_up: seen().filter(|id| !self.asked.contains(*id)).cloned().collect(),
            altered: having(|all| all.iter().any(|delivery| !delivery.intact)),
            given_up: self.dead.difference(&self.poison).cloned().collect(),
            unflagged: having(|all| all.iter().skip(1).any(|delivery| !delivery.redelivered)),
            excess: self.duplicates().saturating_sub(self.in_flight),
        }
    }

    fn duplicates(&self) -> usize {
        self.delivered.values().map(|all| all.len() - 1).sum()
    }
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        *self == Evidence::default().judge()
    }
}

/// The figures.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "asked {}, accepted {}, delivered {}, dead {}, duplicates {} (at most {}), lost {}",
            self.asked.len(),
            self.accepted.len(),
            self.delivered.len(),
            self.dead.len(),
            self.duplicates(),
            self.in_flight,
            self.judge().lost.len(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Delivery = Delivery { intact: true, redelivered: false };
    const AGAIN: Delivery = Delivery { intact: true, redelivered: true };

    fn set(ids: &[&str]) -> HashSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    /// Everything that may happen: delivered, delivered twice, dead, accepted without an answer, lost
    /// without one.
    fn evidence() -> Evidence {
        let delivered = [("once", vec![GOOD]), ("twice", vec![GOOD, AGAIN]), ("mute", vec![GOOD])];
        Evidence {
            asked: set(&["once", "twice", "bad", "mute", "gone"]),
            accepted: set(&["once", "twice", "bad"]),
            delivered: delivered.map(|(id, all)| (id.to_owned(), all)).into(),
            dead: set(&["bad"]),
            poison: set(&["bad"]),
            in_flight: 1,
        }
    }

    /// What is changed in good evidence must show, in its place.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Evidence), found: impl FnOnce(&Verdict) -> bool) {
        let mut changed = evidence();
        change(&mut changed);
        let verdict = changed.judge();
        assert!(found(&verdict) && !verdict.is_good(), "{verdict:?}");
    }

    #[test]
    fn good_evidence_is_found_good() {
        assert!(evidence().judge().is_good(), "{:?}", evidence().judge());
    }

    #[test]
    fn every_kind_of_violation_is_found() {
        check(|it| drop(it.delivered.remove("once")), |it| it.lost == ["once"]);
        check(|it| it.dead.clear(), |it| it.lost == ["bad"]);
        check(|it| it.asked.retain(|id| id != "mute"), |it| it.made_up == ["mute"]);
        check(|it| it.poison.clear(), |it| it.given_up == ["bad"]);
        check(|it| it.in_flight = 0, |it| it.excess == 1);
        let twice = |all| move |it: &mut Evidence| drop(it.delivered.insert("twice".into(), all));
        check(twice(vec![GOOD, GOOD]), |it| it.unflagged == ["twice"]);
        let other = Delivery { intact: false, ..GOOD };
        check(twice(vec![other]), |it| it.altered == ["twice"]);
    }
}

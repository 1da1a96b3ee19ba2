//! Which changes without a sync survive the power loss.

use rand::{Rng, RngExt};

use super::{disk::Fate, log::Change};

/// A way for a disk to lose power.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// In order up to a moment; the write of that moment is torn.
    Prefix,
    /// Only what was asked for last: the disk reordered.
    Suffix,
    AllButOne,
    OnlyOne,
    AnySubset,
    AnySectors,
    /// Some writes have only made their file longer.
    Hollow,
}

impl Survival {
    pub(crate) const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Everything,
        Self::Prefix,
        Self::Suffix,
        Self::AllButOne,
        Self::OnlyOne,
        Self::AnySubset,
        Self::AnySectors,
        Self::Hollow,
    ];

    /// One fate for each of the changes.
    pub(crate) fn fates(self, pending: &[&Change<'_>], random: &mut impl Rng) -> Vec<Fate> {
        let chosen = random.random_range(0..pending.len().max(1));
        let fate = |(at, change): (usize, &&Change<'_>)| match self {
            Self::Nothing => Fate::Lost,
            Self::Everything => Fate::Kept,
            Self::Prefix if at == chosen => torn(change, random),
            Self::Prefix => kept_if(at < chosen),
            Self::Suffix => kept_if(at >= chosen),
            Self::AllButOne => kept_if(at != chosen),
            Self::OnlyOne => kept_if(at == chosen),
            Self::AnySubset => kept_if(random.random()),
            Self::AnySectors => torn(change, random),
            Self::Hollow if random.random() => Fate::Hollow,
            Self::Hollow => kept_if(random.random()),
        };
        pending.iter().enumerate().map(fate).collect()
    }
}

fn kept_if(kept: bool) -> Fate {
    if kept { Fate::Kept } else { Fate::Lost }
}

/// A length or a name changes as a whole or not at all.
fn torn(change: &Change<'_>, random: &mut impl Rng) -> Fate {
    match change {
        Change::Write { .. } => Fate::Torn(random.random()),
        Change::Truncate { .. } | Change::Name { .. } => kept_if(random.random()),
    }
}

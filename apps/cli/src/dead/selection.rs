//! Which dead letters a replay or discard applies to: by id, by filter, or all.

use std::collections::HashSet;

use bezoar::DeadLetterId;
use bezoar_gateway::api_types::DeadLetterFilter;
use clap::error::ErrorKind;

use super::filter::Filter;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct SelectionArguments {
    /// Ids of dead letters, as shown by `bezoar dead list`
    #[arg(value_name = "ID", conflicts_with = "all", value_parser = super::dead_letter::id)]
    ids: Vec<DeadLetterId>,
    /// Select all dead letters
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
}

/// The selected dead letters.
#[derive(Debug)]
pub(super) enum Selection {
    /// By id, each once.
    Ids(Vec<DeadLetterId>),
    /// By filter.
    Matching(Filter),
}

impl SelectionArguments {
    /// Parses the arguments. Exits with the usage error code if they select nothing, or are ambiguous.
    pub(super) fn parse(self) -> Selection {
        let words = match (self.ids.is_empty(), self.filter.is_empty(), self.all) {
            (false, true, _) => return Selection::Ids(once(self.ids)),
            (true, false, false) | (true, true, true) => return Selection::Matching(self.filter),
            (true, true, false) => "nothing selected: pass ids, filters such as --cause, or --all",
            (false, false, _) => "ids and filters cannot be combined",
            (true, false, true) => "--all and filters cannot be combined",
        };
        clap::Error::raw(ErrorKind::ValueValidation, format!("{words}\n")).exit()
    }
}

fn once(mut ids: Vec<DeadLetterId>) -> Vec<DeadLetterId> {
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

impl Selection {
    /// The members `ids` and `filter` of a request: one of them is set.
    pub(super) fn request(&self) -> (Option<Vec<String>>, Option<DeadLetterFilter>) {
        match self {
            Self::Ids(ids) => (Some(ids.iter().map(ToString::to_string).collect()), None),
            Self::Matching(filter) => (None, Some(filter.request())),
        }
    }
}

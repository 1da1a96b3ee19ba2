//! The dead letters that something is done to: some by their numbers, those that fit, or all.

use clap::error::ErrorKind;
use serde_json::{Map, Value, json};

use super::filter::Filter;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct SelectionArguments {
    /// Their numbers, as `bezoar dead list` shows them
    #[arg(value_name = "ID", allow_negative_numbers = true, conflicts_with = "all")]
    ids: Vec<i64>,
    /// All there are
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
}

/// What was chosen.
#[derive(Debug)]
pub(super) enum Selection {
    /// These, each once.
    Ids(Vec<i64>),
    /// Those that fit.
    Matching(Filter),
}

impl SelectionArguments {
    /// What was chosen. Ends the program with its code for wrong usage if that is nothing, or two things.
    pub(super) fn parse(self) -> Selection {
        let words = match (self.ids.is_empty(), self.filter.is_empty(), self.all) {
            (false, true, _) => return Selection::Ids(once(self.ids)),
            (true, false, false) | (true, true, true) => return Selection::Matching(self.filter),
            (true, true, false) => "say which: numbers, filters such as --cause, or --all",
            (false, false, _) => "numbers and filters do not go together",
            (true, false, true) => "--all and filters do not go together",
        };
        clap::Error::raw(ErrorKind::ValueValidation, format!("{words}\n")).exit()
    }
}

fn once(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Selection {
    /// A request for them with what else there is to say.
    pub(super) fn request(&self, reason: &str) -> Map<String, Value> {
        let which = match self {
            Self::Ids(ids) => ("ids", json!(ids)),
            Self::Matching(filter) => ("filter", filter.object().into()),
        };
        let all = [which, ("reason", reason.into())];
        all.into_iter().map(|(name, it)| (name.to_owned(), it)).collect()
    }
}

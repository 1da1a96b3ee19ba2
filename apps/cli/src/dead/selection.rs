//! Which dead letters a replay or discard applies to: by id, by filter, or all.

use std::collections::HashSet;

use anyhow::Result;
use bezoar::DeadLetterId;
use bezoar_gateway::api_types::DeadLetterFilter;
use clap::error::ErrorKind;

use super::{abbreviation::Abbreviated, filter::Filter};
use crate::{client::ApiClient, complete};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct SelectionArguments {
    /// Ids of dead letters, as shown by `bezoar dead list`
    #[arg(value_name = "ID", conflicts_with = "all", value_parser = super::dead_letter::id, add = complete::dead_letters())]
    ids: Vec<Abbreviated<DeadLetterId>>,
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
    Matching(Box<Filter>),
}

impl SelectionArguments {
    /// Parses the arguments. Exits with the usage error code if they select nothing, or are ambiguous.
    pub(super) async fn resolve(self, client: &ApiClient) -> Result<Selection> {
        let words = match (self.ids.is_empty(), self.filter.is_empty(), self.all) {
            (false, true, _) => {
                let mut ids = Vec::with_capacity(self.ids.len());
                for id in self.ids {
                    ids.push(id.resolve(client).await?);
                }
                return Ok(Selection::Ids(once(ids)));
            }
            (true, false, false) | (true, true, true) => {
                return Ok(Selection::Matching(Box::new(self.filter.resolve(client).await?)));
            }
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

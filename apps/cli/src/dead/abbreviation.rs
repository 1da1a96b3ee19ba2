//! Ids by their beginning, if only one begins so.

use std::{fmt, str::FromStr};

use anyhow::{Context as _, Result, bail};
use bezoar::{
    DeadLetterId,
    catalogue::{CauseId, OperationId},
};
use serde_json::Value;

use crate::{client::ApiClient, listing};

/// How many pages are read to be sure that no other id begins so.
const PAGES: usize = 20;
/// A shorter beginning is more likely a mistake.
const LEAST_CHARS: usize = 3;

/// An id as somebody typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Abbreviated<T> {
    Whole(T),
    Beginning(String),
}

/// A kind of id that can be looked up.
pub(super) trait ListedId: Sized {
    const NOUN: &'static str;
    /// The list of all of them.
    const LIST: &'static str;
    /// What all of them begin with.
    const PREFIX: &'static str;
    /// How many characters follow.
    const CHARS: usize;
    fn parse(text: &str) -> Option<Self>;
}

impl ListedId for DeadLetterId {
    const NOUN: &'static str = "dead letter";
    const LIST: &'static str = "/v1/dead-letters?limit=1000";
    const PREFIX: &'static str = "dl_";
    const CHARS: usize = 8;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl ListedId for OperationId {
    const NOUN: &'static str = "replay or discard";
    const LIST: &'static str = "/v1/replays";
    const PREFIX: &'static str = "op_";
    const CHARS: usize = 8;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl ListedId for CauseId {
    const NOUN: &'static str = "cause";
    const LIST: &'static str = "/v1/causes?limit=1000";
    const PREFIX: &'static str = "v1:";
    const CHARS: usize = 16;

    fn parse(text: &str) -> Option<Self> {
        Self::new(text).ok()
    }
}

impl<T: ListedId> FromStr for Abbreviated<T> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(id) = T::parse(text) {
            return Ok(Self::Whole(id));
        }
        let rest = text.strip_prefix(T::PREFIX).ok_or(())?;
        let is_plain = rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let is_beginning = is_plain && (LEAST_CHARS..T::CHARS).contains(&rest.len());
        if is_beginning { Ok(Self::Beginning(text.to_owned())) } else { Err(()) }
    }
}

impl<T: ListedId> Abbreviated<T> {
    /// The id. Asks the gateway if it was abbreviated; an error unless exactly one begins so.
    pub(super) async fn resolve(self, client: &ApiClient) -> Result<T> {
        let text = match self {
            Self::Whole(id) => return Ok(id),
            Self::Beginning(text) => text,
        };
        let (mut found, mut after) = (Vec::new(), String::new());
        for _ in 0..PAGES {
            let page: Value = client.get(&format!("{}{after}", T::LIST)).await?.parse()?;
            let ids = listing::items(&page).filter_map(|item| item.get("id")?.as_str());
            found.extend(ids.filter(|id| id.starts_with(&text)).map(str::to_owned));
            match page.get("next").and_then(Value::as_str) {
                Some(next) => after = format!("&after={next}"),
                None => return only::<T>(&text, &found),
            }
        }
        bail!("too many to look up {text}; give the whole id")
    }
}

fn only<T: ListedId>(text: &str, found: &[String]) -> Result<T> {
    match found {
        [id] => T::parse(id).with_context(|| format!("unexpected id {id}")),
        [] => bail!("no {} begins with {text}", T::NOUN),
        several => bail!("{text} is ambiguous: {}", several.join(", ")),
    }
}

impl<T: fmt::Display> fmt::Display for Abbreviated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(id) => id.fmt(f),
            Self::Beginning(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_ids_and_their_beginnings_are_recognized() {
        let letter = |text: &str| text.parse::<Abbreviated<DeadLetterId>>();
        assert!(matches!(letter("dl_g4jmah4z"), Ok(Abbreviated::Whole(_))));
        assert!(matches!(letter("dl_g4j"), Ok(Abbreviated::Beginning(_))));
        for text in ["dl_g4", "dl_", "g4jmah4z", "op_209aaw0b", "dl_G4J", "dl_g4j/x"] {
            assert!(letter(text).is_err(), "{text}");
        }
        let cause = |text: &str| text.parse::<Abbreviated<CauseId>>();
        assert!(matches!(cause("v1:7da2268dc9730ffb"), Ok(Abbreviated::Whole(_))));
        assert!(matches!(cause("v1:7da"), Ok(Abbreviated::Beginning(_))));
    }

    #[test]
    fn a_beginning_must_be_unique() {
        let only = |found: &[&str]| {
            let found: Vec<_> = found.iter().map(|id| (*id).to_owned()).collect();
            only::<CauseId>("v1:7", &found).map_err(|error| error.to_string())
        };
        let (one, other) = ("v1:7da2268dc9730ffb", "v1:7000000000000000");
        assert_eq!(only(&[one]).unwrap().as_str(), one);
        assert_eq!(only(&[]).unwrap_err(), "no cause begins with v1:7");
        let expected = format!("v1:7 is ambiguous: {one}, {other}");
        assert_eq!(only(&[one, other]).unwrap_err(), expected);
    }
}

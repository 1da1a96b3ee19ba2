//! `docs/guide/configuration.md` documents every key as it is.

use bezoar::{Jitter, RetryPolicy};

use crate::config::{Applies, Key, Kind, human::duration, keys};

const GUIDE: &str = include_str!("../../../../../docs/guide/configuration.md");

#[test]
fn every_key_is_in_the_guide_with_what_it_accepts_and_its_default() {
    let missing: Vec<_> =
        keys().iter().map(entry).filter(|entry| !GUIDE.contains(entry.as_str())).collect();
    assert!(missing.is_empty(), "docs/guide/configuration.md lacks:\n{}", missing.concat());
}

#[test]
fn every_key_in_the_guide_is_known() {
    let rows: Vec<_> = GUIDE.lines().filter(|line| line.ends_with(" |")).collect();
    let known: String = keys().iter().map(entry).collect();
    for row in rows.iter().filter(|row| row.contains("| reload |") || row.contains("| restart |")) {
        assert!(
            known.contains(row),
            "docs/guide/configuration.md has a row for an unknown key:\n{row}"
        );
    }
}

#[test]
fn the_guides_agree_with_every_preset() {
    const GUIDES: [&str; 2] = [
        include_str!("../../../../../docs/guide/gateway.md"),
        include_str!("../../../../../docs/guide/handlers.md"),
    ];
    for (name, policy) in RetryPolicy::PRESETS {
        let row = preset_row(name, &policy);
        assert!(GUIDES.iter().all(|guide| guide.contains(&row)), "a guide lacks:\n{row}");
    }
}

fn preset_row(name: &str, policy: &RetryPolicy) -> String {
    let delays: Vec<_> = policy.delays().map(duration::format).collect();
    let jitter = match policy.jitter() {
        _ if delays.is_empty() => "none".to_owned(),
        Jitter::None => "none".to_owned(),
        Jitter::Symmetric(most) => format!("±{} %", most * 100.0),
        Jitter::Lengthening(most) => format!("up to {} % longer", most * 100.0),
        other => panic!("the guides have no words for {other:?}"),
    };
    let later = if delays.is_empty() { "none".to_owned() } else { delays.join(", ") };
    let (at_once, attempts) = (policy.immediate_retries(), policy.max_retries() + 1);
    format!("| `{name}` | {at_once} | {later} | {jitter} | {attempts} |\n")
}

/// A section for what is at the top, a row for everything else.
fn entry(key: &Key) -> String {
    let Key { path, doc, .. } = key;
    match key.kind {
        Kind::Table if key.parent().is_empty() => format!("\n### `[{path}]`\n\n{doc}\n"),
        Kind::Tables => format!("\n### `[[{path}]]`\n\n{doc}\n"),
        Kind::Named => format!("\n### `[{path}.NAME]`\n\n{doc}\n"),
        _ => row(key),
    }
}

fn row(key: &Key) -> String {
    let default = match key.default {
        Some("") => "`[]`".to_owned(),
        Some(text) => format!("`{text}`"),
        None if key.required => "must be set".to_owned(),
        None => "not set".to_owned(),
    };
    let applies = match key.applies {
        Applies::Live => "reload",
        Applies::Restart => "restart",
    };
    format!("| `{}` | {} | {default} | {applies} | {} |\n", key.path, key.kind.expected(), key.doc)
}

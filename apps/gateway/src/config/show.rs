//! Effective values and their origins: `bezoar config show`.

use super::{Loaded, Setting};

/// All effective values, in the order of sections. Secrets are `***`; unset keys are omitted.
/// As JSON: a list of `{"key", "value", "origin"}`.
pub fn show(loaded: &Loaded) -> Vec<Setting> {
    loaded.settings.clone()
}

/// The same as lines of text: `server.listen = 127.0.0.1:8420  # default`.
pub fn show_text(loaded: &Loaded) -> String {
    let width = |text: fn(&Setting) -> usize| loaded.settings.iter().map(text).max().unwrap_or(0);
    let keys = width(|setting| setting.key.chars().count());
    let values = width(|setting| setting.value.chars().count().min(40));
    let line = |Setting { key, value, origin }: &Setting| {
        format!("{key:keys$} = {value:values$}  # {origin}\n")
    };
    loaded.settings.iter().map(line).collect()
}

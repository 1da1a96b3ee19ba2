//! Finds a word in any bytes, also in disguise.

use base64::{Engine, alphabet, engine::GeneralPurpose, engine::general_purpose::NO_PAD};

/// A word to look for, in all the forms in which it may have been written.
#[derive(Debug)]
pub(crate) struct Search {
    forms: Vec<(&'static str, Vec<u8>)>,
}

impl Search {
    pub(crate) fn new(word: &str) -> Self {
        let each = |form: fn(&u8) -> String| word.as_bytes().iter().map(form).collect::<Vec<_>>();
        let mut forms = vec![
            ("plain", word.to_owned()),
            ("hex", each(|byte| format!("{byte:02x}")).concat()),
            ("percent", each(|byte| format!("%{byte:02x}")).concat()),
            ("list", each(|byte| byte.to_string()).join(", ")),
            ("tight list", each(|byte| byte.to_string()).join(",")),
            ("escapes", each(|byte| format!("\\x{byte:02x}")).concat()),
            ("reversed", word.chars().rev().collect()),
        ];
        for alphabet in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
            forms.extend((0..3).map(|offset| ("base64", within_base64(word, offset, alphabet))));
        }
        let lower = |(name, form): (_, String)| (name, form.to_ascii_lowercase().into_bytes());
        Self { forms: forms.into_iter().map(lower).collect() }
    }

    /// In which form the word is in there, and what stands around it. Upper and lower case are the same.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<String> {
        let lower = bytes.to_ascii_lowercase();
        self.forms.iter().find_map(|(name, form)| {
            let at = lower.windows(form.len()).position(|window| window == form)?;
            let around = &bytes[at.saturating_sub(200)..(at + form.len() + 80).min(bytes.len())];
            Some(format!("{name}: …{}…", String::from_utf8_lossy(around)))
        })
    }
}

/// The part of the base64 of anything with the word at this offset, modulo 3, that is the same whatever is
/// around the word.
fn within_base64(word: &str, offset: usize, alphabet: &alphabet::Alphabet) -> String {
    let bytes = [&vec![0; offset], word.as_bytes()].concat();
    let encoded = GeneralPurpose::new(alphabet, NO_PAD).encode(&bytes);
    encoded[(offset * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned()
}

/// The negative control: a search that finds nothing would find everything in order.
#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    const WORD: &str = "Canary5d41402abc4b";

    #[track_caller]
    fn check(line: &str, form: &str) {
        let found = Search::new(WORD).find(line.as_bytes());
        assert!(found.as_ref().is_some_and(|it| it.starts_with(form)), "{line}: {found:?}");
    }

    #[test]
    fn a_word_is_found_however_it_is_written() {
        check(&format!("WARN refused: {WORD}"), "plain");
        check(&WORD.to_uppercase(), "plain");
        check(&format!("{:?}", WORD.as_bytes()), "list");
        check(&serde_json::to_string(WORD.as_bytes()).unwrap(), "tight list");
        check(&WORD.bytes().map(|byte| format!("{byte:02X}")).collect::<String>(), "hex");
        check(&WORD.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>(), "percent");
        for before in ["", "x", "xx", "xxx"] {
            let text = format!("{before}{WORD} and more");
            check(&format!("body={}", BASE64_STANDARD.encode(&text)), "base64");
            check(&format!("body={}", BASE64_URL_SAFE_NO_PAD.encode(&text)), "base64");
        }
    }

    #[test]
    fn other_words_are_not() {
        for line in ["", "Canary", "WARN refused: m-1", &"Canary5d41402abc4".repeat(9)] {
            assert_eq!(Search::new(WORD).find(line.as_bytes()), None);
        }
    }
}

//! An excerpt of the line with an error, without anything that may be a secret.
//!
//! Invalid TOML cannot be interpreted, so only what is known to be harmless is shown: names of existing
//! tables and keys, and the first word after a key that holds no secret.

use super::keys;

const MASK: &str = "***";
/// The maximum length of a shown word.
const WORD_LIMIT_CHARS: usize = 40;

/// The line with a caret under the column, both from 1.
pub(super) fn excerpt(text: &str, line: usize, column: usize) -> String {
    let before: String = text.split_inclusive('\n').take(line - 1).collect();
    let raw = text.split('\n').nth(line - 1).unwrap_or_default();
    let shown = if within_text(&before) { MASK.to_owned() } else { shown(raw) };
    let indent = raw.chars().take_while(|c| c.is_whitespace()).count();
    let caret = (column - 1).saturating_sub(indent).min(shown.chars().count());
    let margin = " ".repeat(line.to_string().len());
    format!("{line} | {shown}\n{margin} | {}^", " ".repeat(caret))
}

/// Whether what follows is inside a multi-line string.
fn within_text(before: &str) -> bool {
    ["\"\"\"", "'''"].iter().any(|mark| !before.matches(mark).count().is_multiple_of(2))
}

fn shown(line: &str) -> String {
    let line = line.trim();
    match line.split_once('=') {
        _ if line.is_empty() => String::new(),
        _ if line.starts_with('[') => header(line),
        Some((key, value)) => assignment(key.trim_end(), value.trim_start()),
        None => MASK.to_owned(),
    }
}

fn header(line: &str) -> String {
    let end = line.find(|c: char| !"[]_".contains(c) && !c.is_ascii_alphanumeric());
    let (header, rest) = line.split_at(end.unwrap_or(line.len()));
    let known = keys::is_table(header.trim_matches(['[', ']']));
    match (known, rest.is_empty()) {
        (true, true) => header.to_owned(),
        (true, false) => format!("{header} {MASK}"),
        (false, _) => MASK.to_owned(),
    }
}

fn assignment(key: &str, value: &str) -> String {
    let name = key.rsplit('.').next().unwrap_or_default();
    match keys::holds_secrets(name) {
        None => format!("{MASK} = {MASK}"),
        Some(_) if value.is_empty() => format!("{name} ="),
        Some(true) => format!("{name} = {MASK}"),
        Some(false) => {
            let shown: String = word(value).chars().take(WORD_LIMIT_CHARS).collect();
            let rest = if shown.len() == value.len() { "" } else { MASK };
            format!("{name} = {shown}{rest}")
        }
    }
}

/// The first word, or the first quoted string.
fn word(value: &str) -> &str {
    let end = |c: char| c.is_whitespace() || ",={}[]()#;:".contains(c);
    let word = value.split(end).next().unwrap_or_default();
    let quote = word.chars().next().filter(|c| ['"', '\''].contains(c));
    let closed = quote.and_then(|quote| word[1..].find(quote));
    closed.map_or(word, |length| &word[..length + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(shown(line), expected);
    }

    #[test]
    fn harmless_text_is_shown() {
        check("timeout = 30s", "timeout = 30s");
        check("  route.timeout = \"30s", "timeout = \"30s");
        check("timeout =", "timeout =");
        check("[server", "[server");
        check("[[route]", "[[route]");
    }

    #[test]
    fn possible_secrets_are_masked() {
        for line in [
            "secret = CANARY",
            "token.secret = \"CANARY",
            "secert = 'CANARY",
            "CANARY",
            "\"CANARY",
            "name = \"a\" secret = \"CANARY\"",
            "name = \"a\",secret=\"CANARY\"",
            "name = {secret = \"CANARY\"",
            "name = \"\"CANARY",
            "name = a CANARY",
            "name = a:CANARY",
            "[[token]] secret = CANARY",
            "[CANARY",
            "[\"CANARY\", 1",
            "# secret = CANARY",
            "timeout = 1 # CANARY",
            "headers = { Authorization = \"Bearer CANARY\" oops }",
            "to = http://user:CANARY@host/",
            "url = postgres://user:CANARY@host/",
            "secret: CANARY",
            "CANARY = 1",
            "Authorization = CANARY",
        ] {
            let shown = shown(line);
            assert!(!shown.contains("CAN"), "{line} is shown as {shown}");
        }
    }

    #[test]
    fn the_inside_of_a_multi_line_string_is_masked() {
        let text = "secret = \"\"\"\nname = CANARY\n";
        assert_eq!(excerpt(text, 2, 3), "2 | ***\n  |   ^");
    }

    #[test]
    fn the_caret_stays_under_the_line() {
        assert_eq!(excerpt("  timeout = 30s\n", 1, 13), "1 | timeout = 30s\n  |           ^");
        assert_eq!(
            excerpt("secret = \"abcdefghijkl", 1, 20),
            "1 | secret = ***\n  |             ^"
        );
        assert_eq!(excerpt("", 1, 1), "1 | \n  | ^");
    }
}

//! Parses the file into values that know their line.

use std::{path::Path, sync::Arc};

use toml::{
    Spanned,
    de::{DeArray, DeString, DeTable, DeValue},
};

use super::{
    ConfigProblem, InvalidValue, Origin,
    excerpt::excerpt,
    human::size,
    tree::{Node, Value},
};

/// The maximum size of the file.
const FILE_LIMIT_BYTES: usize = 1024 * 1024;

/// Parses TOML, or returns all syntax errors.
pub(super) fn parse(path: &Path, text: &str) -> Result<Node, Vec<ConfigProblem>> {
    let file = TomlFile { path: path.into(), text, starts: starts(text) };
    if text.len() > FILE_LIMIT_BYTES {
        return Err(vec![file.too_large()]);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(Node::new(file.table(table.get_ref()), file.origin(0)));
    }
    let mut problems: Vec<_> = errors.iter().map(|error| file.problem(error)).collect();
    problems.sort_by_key(|problem| line(&problem.origin));
    problems.dedup_by_key(|problem| line(&problem.origin)); // further errors on the same line are noise
    Err(problems)
}

struct TomlFile<'t> {
    path: Arc<Path>,
    text: &'t str,
    /// Where each line starts.
    starts: Vec<usize>,
}

impl TomlFile<'_> {
    fn table(&self, table: &DeTable<'_>) -> Value {
        let node = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
            let named = self.origin(key.span().start);
            (key.get_ref().to_string(), Node { named, ..self.node(value) })
        };
        Value::Table(table.iter().map(node).collect())
    }

    fn list(&self, list: &DeArray<'_>) -> Value {
        Value::List(list.iter().map(|value| self.node(value)).collect())
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let origin = self.origin(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.clone().into_owned()),
            DeValue::Integer(integer) => {
                Value::Integer(saturated(integer.as_str(), integer.radix()))
            }
            DeValue::Float(number) => Value::Number(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(_) => Value::Time,
            DeValue::Array(list) => self.list(list),
            DeValue::Table(table) => self.table(table),
        };
        Node::new(value, origin)
    }

    fn problem(&self, error: &toml::de::Error) -> ConfigProblem {
        let (line, column) = self.position(error.span().map_or(0, |span| span.start));
        let origin = Origin::File { path: self.path.clone(), line, column };
        let problem = format!("invalid TOML: {}", error.message());
        let invalid = InvalidValue::new(problem, remedy(error.message()));
        let excerpt = Some(excerpt(self.text, line, column));
        ConfigProblem { excerpt, ..ConfigProblem::new("", origin, invalid) }
    }

    fn too_large(&self) -> ConfigProblem {
        let actual = size::rough(self.text.len() as u64);
        let limit = size::format(FILE_LIMIT_BYTES as u64);
        let problem = format!("the file has {actual}, the limit is {limit}");
        ConfigProblem::new(
            "",
            self.origin(0),
            InvalidValue::new(problem, "check that this is the right file"),
        )
    }

    fn origin(&self, offset: usize) -> Origin {
        let (line, column) = self.position(offset);
        Origin::File { path: self.path.clone(), line, column }
    }

    /// Line and column of a byte, from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// Remedies for the parser's most common errors; its messages do not quote the text.
fn remedy(message: &str) -> &'static str {
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if says(&["duplicate key"]) {
        "remove one of them"
    } else if says(&["quoted", "float", "integer", "date", "time"]) {
        "write strings in quotes: key = \"text\""
    } else if says(&["unclosed", "string"]) {
        "close the string or bracket"
    } else {
        "expected key = \"value\", [table] or [[list]]"
    }
}

fn starts(text: &str) -> Vec<usize> {
    [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

fn line(origin: &Origin) -> usize {
    if let Origin::File { line, .. } = origin { *line } else { 0 }
}

/// Numbers that do not fit saturate, and are thereby out of every accepted range.
fn saturated(digits: &str, radix: u32) -> i64 {
    let negative = digits.starts_with('-');
    let limit = if negative { i64::MIN } else { i64::MAX };
    i64::from_str_radix(digits, radix).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Node, Vec<ConfigProblem>> {
        parse(Path::new("b.toml"), text)
    }

    fn position(text: &str, keys: &[&str]) -> (String, String) {
        let mut node = read(text).map_err(|problems| problems[0].to_string()).unwrap();
        for key in keys {
            node = match node.value {
                Value::Table(mut table) => table.remove(*key).unwrap(),
                Value::List(mut list) => list.remove(key.parse().unwrap()),
                _ => panic!("{key} is in no table"),
            };
        }
        (node.named.position(), node.origin.position())
    }

    #[test]
    fn values_and_keys_know_where_they_are() {
        let text = "# é\n[server]\nlisten = 'x'\n\n[[route]]\n  \"é\".b = { c = 1 }\n";
        let check = |keys: &[&str], named: &str, origin: &str| {
            assert_eq!(position(text, keys), (named.to_owned(), origin.to_owned()));
        };
        check(&["server"], "b.toml:2:2", "b.toml:2:1");
        check(&["server", "listen"], "b.toml:3:1", "b.toml:3:10");
        check(&["route", "0"], "b.toml:5:1", "b.toml:5:1");
        check(&["route", "0", "é", "b"], "b.toml:6:7", "b.toml:6:11");
        check(&["route", "0", "é", "b", "c"], "b.toml:6:13", "b.toml:6:17");
    }

    #[test]
    fn all_errors_are_reported_with_their_position() {
        let problems = read("[server]\nlisten = \n\nname = \"a\n[[route]\n").err().unwrap();
        let lines: Vec<_> = problems.iter().map(|problem| line(&problem.origin)).collect();
        assert_eq!(lines, [2, 4, 5]);
        assert!(problems[0].to_string().contains("2 | listen ="), "{}", problems[0]);
    }

    #[test]
    fn a_file_that_is_too_large_is_rejected() {
        let problems = read(&"#".repeat(FILE_LIMIT_BYTES + 1)).err().unwrap();
        assert!(problems[0].to_string().contains("the limit is 1MiB"), "{}", problems[0]);
    }

    #[test]
    fn numbers_beyond_the_limit_saturate() {
        assert_eq!(saturated("99999999999999999999", 10), i64::MAX);
        assert_eq!(saturated("-99999999999999999999", 10), i64::MIN);
        assert_eq!(saturated("ff", 16), 255);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|\n|[=\\[\\]{}\"'#.]|[a-z]){0,80}") {
            if let Err(problems) = read(&text) {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|problem| line(&problem.origin) > 0));
            }
        }
    }
}

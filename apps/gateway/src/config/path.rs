//! Paths of values: `route[0].retry.first`.

use std::fmt;

/// The table whose keys are user-defined names.
const NAMED: &str = "transports";

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// The path of a value: `route[0].retry.first`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    steps: Vec<Step>,
    /// The kind of the transport that it is in, if that is known.
    transport: Option<&'static str>,
}

impl Path {
    /// The path of `key` in this table.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// The path of `index` in this list.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        let steps = self.steps.iter().cloned().chain([step]).collect();
        Self { steps, transport: self.transport }
    }

    /// The path of the table that contains this one.
    pub(crate) fn parent(&self) -> Self {
        let before = self.steps.len().saturating_sub(1);
        Self { steps: self.steps[..before].to_vec(), transport: self.transport }
    }

    /// The same path, in a transport of this kind.
    pub(crate) fn in_transport(self, kind: Option<&'static str>) -> Self {
        Self { transport: kind, ..self }
    }

    /// The kind of the transport that it is in; `None` if it is elsewhere, or the kind is not known.
    pub(crate) fn transport(&self) -> Option<&'static str> {
        self.transport
    }

    /// Parses `route[0].to`, and also `route.0.to`.
    pub(crate) fn parse(text: &str) -> Self {
        let steps = text.split(['.', '[']).map(|step| step.strip_suffix(']').unwrap_or(step));
        Self { steps: steps.map(Step::new).collect(), transport: None }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The pattern for all elements of a list, `route[].retry.first`, or all names, `transports.*.url`.
    pub(crate) fn pattern(&self) -> String {
        self.written(|_| "[]".to_owned(), |_| "*".to_owned())
    }

    /// Formats the path; `index` and `name` format the variable parts.
    fn written(&self, index: impl Fn(usize) -> String, name: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                Step::Index(number) => text.push_str(&index(*number)),
                Step::Key(key) if text == NAMED => text.extend([".", &name(key)]),
                Step::Key(key) if text.is_empty() => text.push_str(&bare(key)),
                Step::Key(key) => text.extend([".", &bare(key)]),
            }
        }
        text
    }
}

impl Step {
    /// Digits are an index.
    pub(crate) fn new(text: &str) -> Self {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(index) if digits => Self::Index(index),
            _ => Self::Key(text.to_owned()),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(|index| format!("[{index}]"), bare))
    }
}

/// A key, quoted if it contains unusual characters.
fn bare(key: &str) -> String {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.len() <= 60 && key.chars().all(usual) {
        return key.to_owned();
    }
    super::invalid_value::quoted(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_they_are_read() {
        for (text, shown, pattern) in [
            ("server.listen", "server.listen", "server.listen"),
            ("route[0].to", "route[0].to", "route[].to"),
            ("route.12.retry.first", "route[12].retry.first", "route[].retry.first"),
            ("", "\"\"", "\"\""),
            ("a b.c", "\"a b\".c", "\"a b\".c"),
            ("transports.hospital.url", "transports.hospital.url", "transports.*.url"),
            ("transports", "transports", "transports"),
        ] {
            let path = Path::parse(text);
            assert_eq!((path.to_string().as_str(), path.pattern().as_str()), (shown, pattern));
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_a_key() {
        assert_eq!(Step::new("99999999999999999999"), Step::Key("99999999999999999999".to_owned()));
        assert_eq!(Step::new("+1"), Step::Key("+1".to_owned()));
    }
}

//! Reads sections of the tree into values, and collects problems, warnings and origins.

use serde::Serialize;

use super::{
    ConfigProblem, InvalidValue, Origin, Resolve, Secret, SecretSource,
    keys::{self, Key},
    path::Path,
    tree::{Node, TomlTable, Value},
    values::Parsed,
};
use crate::broker::TransportKind;

/// An effective value and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// `route[0].timeout`.
    pub key: String,
    /// Its formatted value; `***` for secrets.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// How secrets are shown.
pub(crate) const MASK: &str = "***";

/// Reads values, and collects problems, warnings and origins.
pub(crate) struct SectionReader<'a> {
    resolve: &'a Resolve<'a>,
    pub(crate) problems: Vec<ConfigProblem>,
    pub(crate) warnings: Vec<ConfigProblem>,
    pub(crate) settings: Vec<Setting>,
}

impl<'a> SectionReader<'a> {
    pub(crate) fn new(resolve: &'a Resolve<'a>) -> Self {
        let (problems, warnings, settings) = (Vec::new(), Vec::new(), Vec::new());
        Self { resolve, problems, warnings, settings }
    }

    /// The value of a key with a default, which also replaces an invalid value.
    pub(crate) fn or_default<T: Parsed>(&mut self, section: &Section<'_>, name: &str) -> T {
        let key = section.key(name);
        match section.node(name) {
            None => {
                let value = default(key);
                self.remember(section.path.key(name), &value, &Origin::Default);
                value
            }
            Some(node) => self.read(key, section, node).unwrap_or_else(|| default(key)),
        }
    }

    /// The value of a key whose default depends on others. That, too, if what was written is refused.
    pub(crate) fn or<T: Parsed>(&mut self, section: &Section<'_>, name: &str, value: T) -> T {
        if section.has(name) {
            return self.optional(section, name).unwrap_or(value);
        }
        self.remember(section.path.key(name), &value, &Origin::Default);
        value
    }

    /// The value of a key that may be missing.
    pub(crate) fn optional<T: Parsed>(&mut self, section: &Section<'_>, name: &str) -> Option<T> {
        self.read(section.key(name), section, section.node(name)?)
    }

    /// The value of a key that must be there.
    pub(crate) fn required<T: Parsed>(&mut self, section: &Section<'_>, name: &str) -> Option<T> {
        self.missing(section, name);
        self.optional(section, name)
    }

    /// The secret of a key that must be there.
    pub(crate) fn secret(&mut self, section: &Section<'_>, name: &str) -> Option<Secret> {
        self.missing(section, name);
        let node = section.node(name)?;
        self.resolved(&section.path.key(name), node, Warn::Always)
    }

    /// Whether a URL has one of these schemes, or refers to one that has. A reference to nothing counts too: who reads
    /// it says so.
    pub(crate) fn names_scheme(&self, section: &Section<'_>, name: &str, schemes: &[&str]) -> bool {
        let Some(Value::Text(text)) = section.node(name).map(|node| &node.value) else {
            return false;
        };
        match self.look_up(text, Secret::new) {
            Ok((url, _)) => {
                url.reveal().split_once(':').is_some_and(|(scheme, _)| schemes.contains(&scheme))
            }
            Err(_) => !matches!(SecretSource::parse(text), Ok(None)),
        }
    }

    /// Certificates or a key in PEM.
    pub(crate) fn pem(&mut self, section: &Section<'_>, name: &str) -> Option<Secret> {
        let (path, node) = (section.path.key(name), section.node(name)?);
        let Value::Text(text) = &node.value else { return None };
        match self.look_up(text, Secret::pem) {
            Ok((pem, _)) => {
                self.show(&path, MASK.to_owned(), &node.origin);
                Some(pem)
            }
            Err(invalid) => {
                self.refuse(section, name, invalid);
                None
            }
        }
    }

    /// Reports an invalid value of a key in a section.
    pub(crate) fn refuse(&mut self, section: &Section<'_>, name: &str, invalid: InvalidValue) {
        let origin = section.node(name).map(|node| &node.origin).or(section.origin());
        let origin = origin.cloned().unwrap_or(Origin::Default);
        self.problems.push(ConfigProblem::new(section.path.key(name), origin, invalid));
    }

    /// Reports what is wrong with a section as a whole.
    pub(crate) fn refuse_section(&mut self, section: &Section<'_>, invalid: InvalidValue) {
        let origin = section.origin().cloned().unwrap_or(Origin::Default);
        self.problems.push(ConfigProblem::new(&section.path, origin, invalid));
    }

    /// Resolves the secret that a node references or contains.
    pub(crate) fn resolved(&mut self, path: &Path, node: &Node, warn: Warn) -> Option<Secret> {
        self.resolved_as(path, node, warn, |_| MASK.to_owned())
    }

    /// The same; `shown` formats the part that is not secret.
    pub(crate) fn resolved_as(
        &mut self,
        path: &Path,
        node: &Node,
        warn: Warn,
        shown: impl Fn(&Secret) -> String,
    ) -> Option<Secret> {
        let Value::Text(text) = &node.value else { return None };
        match self.look_up(text, Secret::new) {
            Ok((secret, literal)) => {
                if literal && warn == Warn::Always {
                    self.warn_of_literal(path, &node.origin);
                }
                self.show(path, shown(&secret), &node.origin);
                Some(secret)
            }
            Err(invalid) => {
                self.problems.push(ConfigProblem::new(path, node.origin.clone(), invalid));
                None
            }
        }
    }

    /// The secret, and whether it was written literally.
    fn look_up(
        &self,
        text: &str,
        secret: fn(String) -> Result<Secret, InvalidValue>,
    ) -> Result<(Secret, bool), InvalidValue> {
        let Some(source) = SecretSource::parse(text)? else {
            return Ok((secret(text.to_owned())?, true));
        };
        let found = (self.resolve)(&source).map_err(|why| {
            let remedy = match source {
                SecretSource::Environment(_) => "set it in the gateway's environment",
                SecretSource::File(_) => "create it and make it readable by the gateway",
            };
            InvalidValue::new(format!("refers to {source}, which {why}"), remedy)
        })?;
        let secret = secret(found).map_err(|invalid| {
            InvalidValue::new(
                format!("refers to {source}, which {}", invalid.problem),
                invalid.remedy,
            )
        })?;
        Ok((secret, false))
    }

    fn warn_of_literal(&mut self, path: &Path, origin: &Origin) {
        let problem = match origin {
            Origin::File { .. } => "is a secret in plain text",
            Origin::Flag(_) => "is a secret in a flag, which other processes can see",
            Origin::Environment(_) | Origin::Default => return,
        };
        let invalid = InvalidValue::new(problem, "use env:NAME or file:PATH instead");
        self.warnings.push(ConfigProblem::new(path, origin.clone(), invalid));
    }

    fn missing(&mut self, section: &Section<'_>, name: &str) {
        if section.has(name) || section.origin().is_none() {
            return;
        }
        let remedy = format!("set {}", section.key(name).kind.expected());
        self.refuse(section, name, InvalidValue::new("is missing", remedy));
    }

    fn read<T: Parsed>(&mut self, key: &Key, section: &Section<'_>, node: &Node) -> Option<T> {
        match T::parse(&key.kind, &node.value) {
            Ok(value) => {
                self.remember(section.path.key(key.name()), &value, &node.origin);
                Some(value)
            }
            Err(invalid) => {
                self.refuse(section, key.name(), invalid);
                None
            }
        }
    }

    fn remember(&mut self, path: Path, value: &impl Parsed, origin: &Origin) {
        self.show(&path, value.shown(), origin);
    }

    pub(crate) fn show(&mut self, path: &Path, value: String, origin: &Origin) {
        self.settings.push(Setting { key: path.to_string(), value, origin: origin.clone() });
    }
}

/// Whether to warn of secrets in plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warn {
    Always,
    Never,
}

fn default<T: Parsed>(key: &Key) -> T {
    let text = key.default.unwrap_or_default().to_owned();
    let value = key.kind.typed(text, &Origin::Default);
    value
        .and_then(|value| T::parse(&key.kind, &value))
        .expect("a test parses the defaults of all keys")
}

/// A table of the tree, possibly absent.
pub(crate) struct Section<'t> {
    pub(crate) path: Path,
    node: Option<&'t Node>,
}

impl<'t> Section<'t> {
    pub(crate) fn root(node: &'t Node) -> Self {
        Self { path: Path::default(), node: Some(node) }
    }

    /// The table `name` in this one.
    pub(crate) fn table(&self, name: &str) -> Self {
        Self { path: self.path.key(name), node: self.node(name) }
    }

    /// The tables of the list `name` in this one, without invalid ones.
    pub(crate) fn tables(&self, name: &str) -> Vec<Self> {
        let Some(Value::List(list)) = self.node(name).map(|node| &node.value) else {
            return Vec::new();
        };
        let section =
            |(index, node)| Self { path: self.path.key(name).index(index), node: Some(node) };
        let sections = list.iter().enumerate().map(section);
        sections.filter(|section| section.content().is_some()).collect()
    }

    /// The named tables of `name` in this one, without invalid ones.
    pub(crate) fn named(&self, name: &str) -> Vec<(&'t str, Self)> {
        let within = self.table(name);
        let Some(table) = within.content() else { return Vec::new() };
        let section = |(name, node): (&'t String, &'t Node)| {
            let kind = node.transport.map(|kind| kind.name);
            let path = within.path.key(name).in_transport(kind);
            (name.as_str(), Self { path, node: within.node(name) })
        };
        let sections = table.iter().map(section);
        sections.filter(|(_, section)| section.content().is_some()).collect()
    }

    /// The node of `name`, unless it is invalid.
    pub(crate) fn node(&self, name: &str) -> Option<&'t Node> {
        self.content()?.get(name).filter(|node| !matches!(node.value, Value::Refused))
    }

    /// Whether `name` is set, even if it is invalid.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.content().is_some_and(|table| table.contains_key(name))
    }

    pub(crate) fn content(&self) -> Option<&'t TomlTable> {
        match &self.node?.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The kind of transport that it is for, if that is known.
    pub(crate) fn transport(&self) -> Option<&'static TransportKind> {
        self.node?.transport
    }

    fn origin(&self) -> Option<&'t Origin> {
        self.node.map(|node| &node.origin)
    }

    fn key(&self, name: &str) -> &'static Key {
        keys::find(&self.path.key(name)).expect("a test covers all keys that are read")
    }
}

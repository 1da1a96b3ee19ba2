//! `[transports.NAME]`: a broker. Its URL says of which kind it is, and each kind has keys of its own.

use crate::{
    broker::{KINDS, TransportKind, TransportSettings},
    config::{
        InvalidValue, Name, Resolve, SecretSource,
        keys::TRANSPORTS,
        reader::{Section, SectionReader, Warn},
        tree::{Node, TomlTable, Value},
    },
};

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportConfig {
    /// The prefix of its queues.
    pub name: Name,
    /// What is configured, by the kind of broker.
    pub settings: TransportSettings,
}

impl TransportConfig {
    pub(in crate::config) fn read_all(
        reader: &mut SectionReader<'_>,
        root: &Section<'_>,
    ) -> Vec<Self> {
        let named = root.named(TRANSPORTS).into_iter();
        named.filter_map(|(name, section)| Self::read(reader, name, root, &section)).collect()
    }

    fn read(
        reader: &mut SectionReader<'_>,
        name: &str,
        root: &Section<'_>,
        section: &Section<'_>,
    ) -> Option<Self> {
        let name = Name::new(name)
            .map_err(|invalid| reader.refuse(&root.table(TRANSPORTS), name, invalid));
        let settings = match section.transport() {
            Some(kind) => (kind.read)(reader, section),
            None => {
                refuse_url(reader, section);
                None
            }
        };
        Some(Self { name: name.ok()?, settings: settings? })
    }
}

/// Marks every transport in the tree with its kind.
pub(in crate::config) fn mark_kinds(root: &mut Node, resolve: &Resolve<'_>) {
    let Value::Table(sections) = &mut root.value else { return };
    let Some(Value::Table(transports)) = sections.get_mut(TRANSPORTS).map(|node| &mut node.value)
    else {
        return;
    };
    for node in transports.values_mut() {
        if let Value::Table(transport) = &node.value {
            node.transport = kind(transport, resolve);
        }
    }
}

/// The kind of transport that the scheme of the URL says; `None` if it says none, or the URL cannot be looked up.
fn kind(transport: &TomlTable, resolve: &Resolve<'_>) -> Option<&'static TransportKind> {
    let (Value::Text(text) | Value::Untyped(text)) = &transport.get("url")?.value else {
        return None;
    };
    let secret = SecretSource::parse(text).ok()?.map(|source| resolve(&source)).transpose().ok()?;
    let (scheme, _) = secret.as_deref().unwrap_or(text).split_once(':')?;
    KINDS.iter().find(|kind| kind.schemes.contains(&scheme))
}

/// Reports why the URL says no kind. It is not quoted, because it may contain a password.
fn refuse_url(reader: &mut SectionReader<'_>, section: &Section<'_>) {
    let examples = KINDS.iter().map(|kind| format!("{:?} for {}", kind.example, kind.name));
    let examples = examples.collect::<Vec<_>>().join(" or ");
    let invalid = match section.node("url") {
        None if section.has("url") => return, // reported already
        None => InvalidValue::new("is missing", format!("set a URL such as {examples}")),
        Some(node) if reader.resolved(&section.path.key("url"), node, Warn::Never).is_none() => {
            return;
        }
        Some(_) => InvalidValue::new("has an unsupported scheme", format!("use {examples}")),
    };
    reader.refuse(section, "url", invalid);
}

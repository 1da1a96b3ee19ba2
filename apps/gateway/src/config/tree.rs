//! Values as written in the sources, each with its origin.
//!
//! They may be secrets, so nothing here has a `Debug`.

use std::collections::BTreeMap;

use super::{
    InvalidValue, Origin,
    path::{Path, Step},
};
use crate::broker::TransportKind;

/// A value and its origin.
pub(crate) struct Node {
    pub(crate) value: Value,
    /// The origin of the value.
    pub(crate) origin: Origin,
    /// The origin of its key.
    pub(crate) named: Origin,
    /// The kind of transport that this table is for, if that is known.
    pub(crate) transport: Option<&'static TransportKind>,
}

pub(crate) type TomlTable = BTreeMap<String, Node>;

/// A value as written.
pub(crate) enum Value {
    Text(String),
    /// Text of a variable, flag or default, whose type is not known yet.
    Untyped(String),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Time,
    List(Vec<Node>),
    Table(TomlTable),
    /// Was set and already reported as invalid.
    Refused,
}

impl Value {
    /// Its type, for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Untyped(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Boolean(_) => "a boolean",
            Self::Time => "a date or time",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Refused => "invalid",
        }
    }
}

impl Node {
    pub(crate) fn new(value: Value, origin: Origin) -> Self {
        Self { value, named: origin.clone(), origin, transport: None }
    }

    pub(crate) fn empty_table(origin: Origin) -> Self {
        Self::new(Value::Table(TomlTable::new()), origin)
    }

    /// Sets the value at `path`, which may be new, or the next element of a list.
    pub(crate) fn set(
        &mut self,
        path: &Path,
        text: &str,
        origin: &Origin,
    ) -> Result<(), InvalidValue> {
        self.set_step(path.steps(), text, origin)
    }

    fn set_step(
        &mut self,
        steps: &[Step],
        text: &str,
        origin: &Origin,
    ) -> Result<(), InvalidValue> {
        let Some((step, rest)) = steps.split_first() else {
            *self = Self::new(Value::Untyped(text.to_owned()), origin.clone());
            return Ok(());
        };
        let next = || Self::container(rest, origin);
        match (step, &mut self.value) {
            (_, Value::Refused) => Ok(()),
            (Step::Key(key), Value::Table(table)) => {
                let child = table.entry(key.clone()).or_insert_with(next);
                child.make_room(key, rest, origin);
                child.set_step(rest, text, origin)
            }
            (Step::Index(index), Value::List(list)) => {
                if *index == list.len() {
                    list.push(next());
                }
                let count = list.len();
                let child = list.get_mut(*index).ok_or_else(|| beyond(*index, count))?;
                child.set_step(rest, text, origin)
            }
            (_, other) => Err(InvalidValue::new(
                format!("is inside {}", other.kind()),
                "correct the name of the variable or flag",
            )),
        }
    }

    /// Makes room for the new value: a preset becomes a table that a single key of a higher source goes into, a header is
    /// replaced by one whose name differs only in case.
    fn make_room(&mut self, key: &str, rest: &[Step], origin: &Origin) {
        match (&mut self.value, rest) {
            (Value::Text(_) | Value::Untyped(_), [_, ..]) if key == "retry" => {
                let preset = std::mem::replace(self, Self::empty_table(origin.clone()));
                if let Value::Table(table) = &mut self.value {
                    table.insert("preset".to_owned(), preset);
                }
            }
            (Value::Table(table), [Step::Key(name), ..]) if key == "headers" => {
                table.retain(|other, _| !other.eq_ignore_ascii_case(name));
            }
            _ => (),
        }
    }

    /// An empty container for the next of `steps`.
    fn container(steps: &[Step], origin: &Origin) -> Self {
        match steps.first() {
            Some(Step::Index(_)) => Self::new(Value::List(Vec::new()), origin.clone()),
            _ => Self::empty_table(origin.clone()),
        }
    }
}

fn beyond(index: usize, count: usize) -> InvalidValue {
    let problem = format!("has the index {index}, but the list has {count} elements");
    InvalidValue::new(problem, format!("indexes start at 0; the next one is {count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(node: &mut Node, path: &str) -> Result<(), String> {
        let origin = Origin::Flag(path.to_owned());
        node.set(&Path::parse(path), "x", &origin).map_err(|invalid| invalid.to_string())
    }

    fn count(node: &Node, key: &str) -> usize {
        let Value::Table(table) = &node.value else { return 0 };
        match &table[key].value {
            Value::List(list) => list.len(),
            Value::Table(table) => table.len(),
            _ => 1,
        }
    }

    #[test]
    fn values_are_added_and_replaced() {
        let mut root = Node::empty_table(Origin::Default);
        for path in ["server.listen", "server.listen", "server.drain", "route[0].to", "route[1].to"]
        {
            set(&mut root, path).unwrap();
        }
        assert_eq!((count(&root, "server"), count(&root, "route")), (2, 2));
    }

    #[test]
    fn a_gap_in_a_list_is_rejected() {
        let mut root = Node::empty_table(Origin::Default);
        let error = set(&mut root, "route[2].to").unwrap_err();
        assert_eq!(
            error,
            "has the index 2, but the list has 0 elements; indexes start at 0; the next one is 0"
        );
    }

    #[test]
    fn a_value_has_no_children() {
        let mut root = Node::empty_table(Origin::Default);
        set(&mut root, "server.listen").unwrap();
        assert!(
            set(&mut root, "server.listen.port").unwrap_err().starts_with("is inside a string")
        );
        assert!(set(&mut root, "server[0]").unwrap_err().starts_with("is inside a table"));
    }

    #[test]
    fn a_preset_stays_beside_a_single_setting() {
        let mut root = Node::empty_table(Origin::Default);
        set(&mut root, "retry").unwrap();
        set(&mut root, "retry.first").unwrap();
        assert_eq!(count(&root, "retry"), 2);
    }

    #[test]
    fn a_header_gives_way_to_one_in_different_case() {
        let mut root = Node::empty_table(Origin::Default);
        set(&mut root, "headers.X-Tenant").unwrap();
        set(&mut root, "headers.x-tenant").unwrap();
        assert_eq!(count(&root, "headers"), 1);
    }
}

//! Values as they were written, each with where that was.
//!
//! They may hold secrets, so nothing here can be printed.

use std::collections::BTreeMap;

use super::{
    InvalidValue, Origin,
    path::{Path, Step},
};

/// A value and where it was written.
pub(super) struct Node {
    pub(super) value: Value,
    /// Where the value is.
    pub(super) origin: Origin,
    /// Where its key is.
    pub(super) named: Origin,
}

pub(super) type TomlTable = BTreeMap<String, Node>;

/// A value as it was written.
pub(super) enum Value {
    Text(String),
    /// Text of a variable, flag or default, which says nothing about its type.
    Untyped(String),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Time,
    List(Vec<Node>),
    Table(TomlTable),
    /// Was there, and was refused already: nothing more to say about it.
    Refused,
}

impl Value {
    /// What it is, for people.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Untyped(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Time => "a date or time",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Refused => "refused",
        }
    }
}

impl Node {
    pub(super) fn new(value: Value, origin: Origin) -> Self {
        Self { value, named: origin.clone(), origin }
    }

    pub(super) fn empty_table(origin: Origin) -> Self {
        Self::new(Value::Table(TomlTable::new()), origin)
    }

    /// Sets what is at `path`, which may be new, or the next of a list.
    pub(super) fn set(
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
                format!("goes into {}", other.kind()),
                "correct the name of the variable or flag",
            )),
        }
    }

    /// A preset, which is text, becomes a table that a single setting of a higher source goes into, and a header
    /// gives way to one whose name differs in case only.
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

    /// What can hold the next of `steps`.
    fn container(steps: &[Step], origin: &Origin) -> Self {
        match steps.first() {
            Some(Step::Index(_)) => Self::new(Value::List(Vec::new()), origin.clone()),
            _ => Self::empty_table(origin.clone()),
        }
    }
}

fn beyond(index: usize, count: usize) -> InvalidValue {
    let problem = format!("has the index {index}, and the list has {count}");
    InvalidValue::new(problem, format!("indexes begin at 0; the next to add is {count}"))
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
    fn a_gap_in_a_list_is_refused() {
        let mut root = Node::empty_table(Origin::Default);
        let error = set(&mut root, "route[2].to").unwrap_err();
        assert_eq!(
            error,
            "has the index 2, and the list has 0; indexes begin at 0; the next to add is 0"
        );
    }

    #[test]
    fn nothing_goes_into_a_value() {
        let mut root = Node::empty_table(Origin::Default);
        set(&mut root, "server.listen").unwrap();
        assert!(set(&mut root, "server.listen.port").unwrap_err().starts_with("goes into text"));
        assert!(set(&mut root, "server[0]").unwrap_err().starts_with("goes into a table"));
    }

    #[test]
    fn a_preset_stays_beside_a_single_setting() {
        let mut root = Node::empty_table(Origin::Default);
        set(&mut root, "retry").unwrap();
        set(&mut root, "retry.first").unwrap();
        assert_eq!(count(&root, "retry"), 2);
    }

    #[test]
    fn a_header_gives_way_to_one_in_other_case() {
        let mut root = Node::empty_table(Origin::Default);
        set(&mut root, "headers.X-Tenant").unwrap();
        set(&mut root, "headers.x-tenant").unwrap();
        assert_eq!(count(&root, "headers"), 1);
    }
}

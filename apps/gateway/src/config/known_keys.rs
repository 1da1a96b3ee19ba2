//! Checks that all keys are known and that their values have an accepted type.

use super::{
    ConfigProblem, InvalidValue, Kind, Origin,
    keys::{self, Key},
    path::{Path, Step},
    suggest::nearest,
    tree::{Node, TomlTable, Value},
};

/// The maximum number of tables in a list.
const TABLES_LIMIT: usize = 1_000;

/// Keys of later versions or other transports, and what to do instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("monitor", "monitors are not supported yet: remove it"),
    ("alert", "alerts are not supported yet: remove it"),
];

/// Reports unknown keys and values of a wrong type, and converts untyped text.
pub(super) fn check(root: &mut Node, problems: &mut Vec<ConfigProblem>) {
    if let Value::Table(table) = &mut root.value {
        check_table(table, &Path::default(), problems);
    }
}

fn check_table(table: &mut TomlTable, path: &Path, problems: &mut Vec<ConfigProblem>) {
    for (name, node) in table {
        let path = path.key(name);
        match keys::find(&path) {
            Some(key) => check_node(node, key, &path, problems),
            None => {
                problems.push(ConfigProblem::new(
                    &path,
                    node.named.clone(),
                    unknown(&path, &node.named),
                ));
                node.value = Value::Refused;
            }
        }
    }
}

fn check_node(node: &mut Node, key: &Key, path: &Path, problems: &mut Vec<ConfigProblem>) {
    give_type(node, key.kind, path, problems);
    let invalid = match &mut node.value {
        Value::Refused => return,
        other if !key.kind.accepts(other) => wrong_type(key, other),
        Value::List(list) if key.kind == Kind::Tables && list.len() > TABLES_LIMIT => {
            InvalidValue::new(format!("occurs {} times", list.len()), "the maximum is 1000")
        }
        Value::List(list) if key.kind == Kind::Tables => {
            return check_tables(list, key, path, problems);
        }
        Value::List(list) => {
            if check_texts(list, key, path, problems) == ListCheck::Refused {
                node.value = Value::Refused;
            }
            return;
        }
        Value::Table(table) if key.kind == Kind::Headers => {
            return check_headers(table, path, problems);
        }
        Value::Table(table) if key.kind == Kind::Named => {
            return check_named(table, key, path, problems);
        }
        Value::Table(table) => return check_table(table, path, problems),
        _ => return,
    };
    refuse(node, path, invalid, problems);
}

fn give_type(node: &mut Node, kind: Kind, path: &Path, problems: &mut Vec<ConfigProblem>) {
    if let Value::Untyped(text) = &mut node.value {
        match kind.typed(std::mem::take(text), &node.origin) {
            Ok(value) => node.value = value,
            Err(invalid) => refuse(node, path, invalid, problems),
        }
    }
}

fn check_tables(list: &mut [Node], key: &Key, path: &Path, problems: &mut Vec<ConfigProblem>) {
    for (index, node) in list.iter_mut().enumerate() {
        let path = path.index(index);
        give_type(node, Kind::Table, &path, problems);
        match &mut node.value {
            Value::Table(table) => check_table(table, &path, problems),
            Value::Refused => (),
            other => {
                let invalid = wrong_type(key, other);
                refuse(node, &path, invalid, problems);
            }
        }
    }
}

fn check_named(table: &mut TomlTable, key: &Key, path: &Path, problems: &mut Vec<ConfigProblem>) {
    for (name, node) in table {
        let path = path.key(name).in_transport(node.transport.map(|kind| kind.name));
        give_type(node, Kind::Table, &path, problems);
        match &mut node.value {
            Value::Table(table) => check_table(table, &path, problems),
            Value::Refused => (),
            other => {
                let problem = format!("is {}", other.kind());
                let remedy = format!("write [{}.NAME] above its keys", key.path);
                refuse(node, &path, InvalidValue::new(problem, remedy), problems);
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum ListCheck {
    Accepted,
    Refused,
}

/// Checks that a list contains strings.
fn check_texts(
    list: &mut [Node],
    key: &Key,
    path: &Path,
    problems: &mut Vec<ConfigProblem>,
) -> ListCheck {
    let mut check = ListCheck::Accepted;
    for (index, node) in list.iter_mut().enumerate() {
        give_type(node, Kind::Secret, path, problems); // any kind of string
        if !matches!(node.value, Value::Text(_)) {
            let invalid = wrong_type(key, &node.value);
            refuse(node, &path.index(index), invalid, problems);
            check = ListCheck::Refused;
        }
    }
    check
}

fn check_headers(table: &mut TomlTable, path: &Path, problems: &mut Vec<ConfigProblem>) {
    for (name, node) in table {
        let path = path.key(name);
        give_type(node, Kind::Secret, &path, problems);
        if !matches!(node.value, Value::Text(_) | Value::Refused) {
            let problem = format!("is {}", node.value.kind());
            let invalid = InvalidValue::new(problem, "use a string, env:NAME or file:PATH");
            refuse(node, &path, invalid, problems);
        }
    }
}

fn refuse(node: &mut Node, path: &Path, invalid: InvalidValue, problems: &mut Vec<ConfigProblem>) {
    problems.push(ConfigProblem::new(path, node.origin.clone(), invalid));
    node.value = Value::Refused;
}

/// The value is not quoted: it may be a secret.
fn wrong_type(key: &Key, value: &Value) -> InvalidValue {
    let problem = format!("is {}", value.kind());
    let remedy = match (key.kind, value) {
        (Kind::Tables, _) => format!("write [[{}]] above its keys", key.path),
        (Kind::Table, Value::List(_)) => format!("write [{}] with single brackets", key.path),
        (Kind::Duration(..), Value::Integer(number)) => {
            format!("use \"{number}s\" for seconds or \"{number}ms\" for milliseconds")
        }
        (Kind::Size(..), Value::Integer(number)) => {
            format!("use \"{number}MiB\", or \"{number}B\" for bytes")
        }
        (kind, _) => format!("expected {}", kind.expected()),
    };
    InvalidValue::new(problem, remedy)
}

fn unknown(path: &Path, named: &Origin) -> InvalidValue {
    let pattern = path.pattern();
    if let Some((_, remedy)) = ELSEWHERE.iter().find(|(key, _)| *key == pattern) {
        return InvalidValue::new("is not supported by this version", *remedy);
    }
    let parent = path.parent();
    let Some(Step::Key(name)) = path.steps().last() else {
        return InvalidValue::new("is not a valid key", "remove it");
    };
    let mut siblings = Vec::new();
    for key in keys::within(&parent) {
        if !siblings.contains(&key.name()) {
            siblings.push(key.name()); // kinds of transports may have keys of the same name
        }
    }
    let meant = nearest(name, siblings.iter().copied());
    let meant = meant.map(|near| format!("did you mean {}?", written(&parent.key(near), named)));
    if let (Some(kind), Some(other)) = (path.transport(), of_other_transport(&pattern)) {
        let suggestion = meant.map(|meant| format!(" {meant}")).unwrap_or_default();
        let known = siblings.join(", ");
        let remedy = format!("it is one of {other};{suggestion} known keys of {kind}: {known}");
        return InvalidValue::new("is an unknown key", remedy);
    }
    let elsewhere = || keys::keys().iter().find(|key| key.name() == name).map(|key| key.path);
    let remedy = if let Some(meant) = meant {
        meant
    } else if let Some(path) = elsewhere() {
        format!("did you mean {path}?")
    } else if siblings.is_empty() {
        "remove it".to_owned()
    } else {
        format!("known keys: {}", siblings.join(", "))
    };
    InvalidValue::new("is an unknown key", remedy)
}

/// The kind of transport that has this key.
fn of_other_transport(pattern: &str) -> Option<&'static str> {
    keys::keys().iter().find(|key| key.path == pattern)?.transport
}

/// The key in the notation of its source.
fn written(path: &Path, named: &Origin) -> String {
    match (named, path.steps().last()) {
        (Origin::Environment(_), _) => super::overrides::variable(path),
        (Origin::File { .. }, Some(Step::Key(name))) => name.clone(),
        _ => path.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::toml_file;

    fn problems(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let Ok(mut root) = toml_file::parse(std::path::Path::new("b.toml"), text) else {
            panic!("no TOML: {text}")
        };
        check(&mut root, &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn check_one(text: &str, expected: &str) {
        assert_eq!(problems(text), [expected]);
    }

    #[test]
    fn unknown_keys_have_a_suggestion() {
        check_one(
            "[server]\nlisten_on = 'x'",
            "b.toml:2:1: server.listen_on is an unknown key; did you mean listen?",
        );
        check_one("[serve]", "b.toml:1:2: serve is an unknown key; did you mean server?");
        check_one(
            "listen = 'x'",
            "b.toml:1:1: listen is an unknown key; did you mean server.listen?",
        );
        check_one(
            "[network]\nbanana = 1",
            "b.toml:2:1: network.banana is an unknown key; \
             known keys: allow, deny, private, only_listed",
        );
        check_one(
            "[[route]]\nretry = { frist = '1s' }",
            "b.toml:2:11: route[0].retry.frist is an unknown key; did you mean first?",
        );
    }

    #[test]
    fn keys_of_later_versions_say_so() {
        check_one(
            "[[alert]]",
            "b.toml:1:3: alert is not supported by this version; alerts are not supported yet: remove it",
        );
    }

    #[test]
    fn named_tables_have_their_own_keys() {
        check_one(
            "[transports.lab]\nulr = 'x'",
            "b.toml:2:1: transports.lab.ulr is an unknown key; did you mean url?",
        );
        check_one(
            "[transports]\nurl = 'x'",
            "b.toml:2:7: transports.url is a string; write [transports.NAME] above its keys",
        );
        check_one(
            "transports = 1",
            "b.toml:1:14: transports is a whole number; expected a table for each name",
        );
    }

    #[test]
    fn wrong_types_are_reported_with_what_is_expected() {
        check_one("server = 1", "b.toml:1:10: server is a whole number; expected a table");
        check_one(
            "[[server]]",
            "b.toml:1:1: server is a list; write [server] with single brackets",
        );
        check_one("[route]", "b.toml:1:1: route is a table; write [[route]] above its keys");
        check_one(
            "route = [1]",
            "b.toml:1:10: route[0] is a whole number; write [[route]] above its keys",
        );
        check_one(
            "[server]\ndrain = 30",
            "b.toml:2:9: server.drain is a whole number; \
             use \"30s\" for seconds or \"30ms\" for milliseconds",
        );
        check_one(
            "[server]\nmax_in_flight = '5'",
            "b.toml:2:17: server.max_in_flight is a string; expected a whole number from 1 to 65536",
        );
        check_one(
            "[network]\nallow = [1]",
            "b.toml:2:10: network.allow[0] is a whole number; \
             expected a list of networks such as [\"10.0.0.0/8\"]",
        );
        check_one(
            "[[route]]\nheaders = { x = 1 }",
            "b.toml:2:17: route[0].headers.x is a whole number; use a string, env:NAME or file:PATH",
        );
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        assert_eq!(problems("a = 1\nb = 2\n[server]\nlisten = 3\n").len(), 3);
    }
}

//! The JSON schema of the file, for editors, derived from the table of keys.

use serde_json::{Map, Value, json};

use super::{
    Kind,
    human::duration,
    keys::{self, Key},
    sections::retry,
};
use crate::broker::{KINDS, TransportKind};

/// The JSON schema (draft 7) of `bezoar.toml`.
pub fn schema() -> Value {
    let mut schema = object("", None);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("bezoar.toml");
    schema
}

/// The table with this pattern, in a transport of this kind.
fn object(pattern: &str, transport: Option<&'static str>) -> Value {
    let children = || keys::children(pattern.to_owned(), transport);
    let described = |key: &Key| (key.name().to_owned(), property(key));
    let properties: Map<_, _> = children().map(described).collect();
    let required: Vec<_> = children().filter(|key| key.required).map(Key::name).collect();
    let mut schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = accepted(key);
    schema["description"] = json!(key.doc);
    if let Some(default) = key.default {
        schema["default"] = default_value(key.kind, default);
    }
    schema
}

fn accepted(key: &Key) -> Value {
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match key.kind {
        Kind::Table => object(key.path, key.transport),
        Kind::Tables => {
            json!({ "type": "array", "items": object(&format!("{}[]", key.path), None) })
        }
        Kind::Retry => {
            let presets = json!({ "enum": retry::PRESETS });
            json!({ "oneOf": [presets, object(key.path, None)] })
        }
        Kind::Named => {
            let kinds: Vec<_> = KINDS.iter().map(transport).collect();
            json!({ "type": "object", "additionalProperties": { "anyOf": kinds } })
        }
        Kind::Headers => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Kind::Name => text("^[A-Za-z0-9._-]{1,64}$"),
        Kind::Queue => text("^([A-Za-z0-9._-]{1,64}/)?[^/].{0,254}$"),
        Kind::BrokerName => json!({ "type": "string", "maxLength": 255 }),
        Kind::StoreUrl => text("^(sqlite|postgres|postgresql|env|file):."),
        Kind::Endpoint => text("^https?://[^@]+$"),
        Kind::Destination => text("^(https?|mllps?)://[^@]+$"),
        Kind::Size(..) => text("^ *[0-9]+ *(B|kB|KB|KiB|MB|MiB|GB|GiB|TB|TiB) *$"),
        Kind::Duration(..) => text("^ *([0-9]+ *(d|h|m|s|ms|us|ns) *)+$"),
        Kind::Rate => text("^ *[0-9]+ */ *[smh] *$"),
        Kind::Integer(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Number(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Automatic => json!({ "enum": ["auto", true, false] }),
        Kind::Queues | Kind::Networks => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        Kind::SigningSecrets => {
            json!({ "type": ["string", "array"], "items": { "type": "string" } })
        }
        Kind::Address | Kind::Filter | Kind::Secret | Kind::BrokerUrl(_) | Kind::File => {
            json!({ "type": "string" })
        }
    }
}

/// A transport of one kind, which its URL selects unless that is a secret.
fn transport(kind: &TransportKind) -> Value {
    let mut schema = object("transports.*", Some(kind.name));
    schema["title"] = json!(kind.name);
    let pattern = format!("^({}|env|file):", kind.schemes.join("|"));
    schema["properties"]["url"]["pattern"] = json!(pattern);
    schema
}

fn default_value(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Integer(..) | Kind::Number(..) | Kind::Boolean => {
            serde_json::from_str(text).unwrap_or(json!(text))
        }
        Kind::Queues | Kind::Networks | Kind::SigningSecrets => json!([]),
        Kind::Duration(..) => {
            json!(duration::parse(text).map_or(text.to_owned(), duration::format))
        }
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of a key, in a transport of this kind.
    fn find(schema: &Value, path: &str, transport: Option<&str>) -> Value {
        let mut schema = schema.clone();
        for step in path.split('.') {
            let list = step.ends_with("[]");
            if let Some(table) = schema["oneOf"].get(1) {
                schema = table.clone();
            }
            schema = match step {
                "*" => {
                    let kinds = schema["additionalProperties"]["anyOf"].take();
                    let of_kind = |kind: &&Value| transport == kind["title"].as_str();
                    kinds.as_array().into_iter().flatten().find(of_kind).cloned().unwrap()
                }
                _ => schema["properties"][step.trim_end_matches("[]")].take(),
            };
            if list {
                schema = schema["items"].take();
            }
        }
        schema
    }

    #[test]
    fn every_key_is_in_the_schema_with_its_documentation_and_default() {
        let schema = schema();
        for key in keys::keys() {
            let found = find(&schema, key.path, key.transport);
            assert_eq!(found["description"], json!(key.doc), "{}", key.path);
            assert_eq!(found.get("default").is_some(), key.default.is_some(), "{}", key.path);
            let parent = match key.parent() {
                "" => schema.clone(),
                parent => find(&schema, parent, key.transport),
            };
            let required =
                parent["required"].as_array().is_some_and(|r| r.contains(&json!(key.name())));
            assert_eq!(required, key.required, "{}", key.path);
        }
    }

    #[test]
    fn defaults_have_the_type_that_is_accepted() {
        for key in keys::keys() {
            let Some(default) = key.default else { continue };
            let expected = match key.kind {
                Kind::Integer(..) | Kind::Number(..) => Value::is_number,
                Kind::Boolean => Value::is_boolean,
                Kind::Networks | Kind::Queues => Value::is_array,
                _ => Value::is_string,
            };
            assert!(expected(&default_value(key.kind, default)), "{}", key.path);
        }
    }

    #[test]
    fn unknown_keys_are_not_accepted_anywhere() {
        let schema = schema();
        let transports = KINDS.iter().map(|kind| ("transports.*", Some(kind.name)));
        let others = ["server", "route[]", "route[].breaker", "token[]"].map(|path| (path, None));
        for (path, kind) in others.into_iter().chain(transports) {
            assert_eq!(find(&schema, path, kind)["additionalProperties"], json!(false), "{path}");
        }
    }
}

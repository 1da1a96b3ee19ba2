//! Header tables, and their values as text.

use std::collections::BTreeMap;

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use serde_json::Value;

pub(super) type Table = BTreeMap<ShortString, AMQPValue>;

pub(super) fn table_of(properties: &BasicProperties) -> Table {
    properties.headers().as_ref().map(FieldTable::inner).cloned().unwrap_or_default()
}

pub(super) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

pub(super) fn string(headers: &Table, name: &str) -> Option<String> {
    let bytes = headers.get(name)?.as_long_string()?.as_bytes();
    String::from_utf8(bytes.to_vec()).ok()
}

pub(super) fn number(headers: &Table, name: &str) -> Option<i64> {
    headers.get(name).and_then(integer)
}

/// A value as text: strings as they are, other types as JSON.
pub(super) fn shown(value: &AMQPValue) -> String {
    match json(value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(it) => (*it).into(),
        AMQPValue::Float(it) => (*it).into(),
        AMQPValue::Double(it) => (*it).into(),
        AMQPValue::DecimalValue(it) => (f64::from(it.value) / 10_f64.powi(it.scale.into())).into(),
        AMQPValue::Timestamp(seconds) => (*seconds).into(),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::LongString(text) => text.to_string().into(),
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into(),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(json).collect(),
        AMQPValue::FieldTable(table) => {
            let entries = table.into_iter().map(|(name, value)| (name.to_string(), json(value)));
            Value::Object(entries.collect())
        }
        AMQPValue::Void => Value::Null,
        _ => integer(value).map_or(Value::Null, Value::from),
    }
}

fn integer(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(it) => Some(it.into()),
        AMQPValue::ShortShortUInt(it) => Some(it.into()),
        AMQPValue::ShortInt(it) => Some(it.into()),
        AMQPValue::ShortUInt(it) => Some(it.into()),
        AMQPValue::LongInt(it) => Some(it.into()),
        AMQPValue::LongUInt(it) => Some(it.into()),
        AMQPValue::LongLongInt(it) => Some(it),
        _ => None,
    }
}

//! Header values as JSON that keeps their types: `["I", -7]`, with the type letters of AMQP.

use base64::{Engine, engine::general_purpose::STANDARD};
use lapin::types::{
    AMQPType, AMQPValue, ByteArray, DecimalValue, FieldArray, LongString, ShortString,
};
use serde_json::{Value, json};

use super::header_table::Table;

/// How deep tables may be nested: JSON is parsed to a depth of 128, and each table takes two levels.
const DEPTH_LIMIT: u32 = 48;

/// Whether a value is not nested too deep to be read again; deeper ones are an attack.
pub(super) fn is_writable(value: &AMQPValue) -> bool {
    fits(value, DEPTH_LIMIT)
}

fn fits(value: &AMQPValue, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match value {
        AMQPValue::FieldArray(it) => it.as_slice().iter().all(|it| fits(it, depth)),
        AMQPValue::FieldTable(it) => it.inner().values().all(|it| fits(it, depth)),
        _ => true,
    }
}

/// The value with its type. Floating-point numbers as their bits, bytes in base64: each is restored exactly.
pub(super) fn write(value: &AMQPValue) -> Value {
    let content = match value {
        AMQPValue::Boolean(it) => json!(it),
        AMQPValue::ShortShortInt(it) => json!(it),
        AMQPValue::ShortShortUInt(it) => json!(it),
        AMQPValue::ShortInt(it) => json!(it),
        AMQPValue::ShortUInt(it) => json!(it),
        AMQPValue::LongInt(it) => json!(it),
        AMQPValue::LongUInt(it) => json!(it),
        AMQPValue::LongLongInt(it) => json!(it),
        AMQPValue::Timestamp(it) => json!(it),
        AMQPValue::Float(it) => json!(it.to_bits()),
        AMQPValue::Double(it) => json!(it.to_bits()),
        AMQPValue::DecimalValue(it) => json!([it.scale, it.value]),
        AMQPValue::ShortString(it) => json!(it.as_str()),
        AMQPValue::LongString(it) => match str::from_utf8(it.as_bytes()) {
            Ok(text) => json!(text),
            Err(_) => json!([STANDARD.encode(it.as_bytes())]),
        },
        AMQPValue::ByteArray(it) => json!(STANDARD.encode(it.as_slice())),
        AMQPValue::FieldArray(it) => it.as_slice().iter().map(write).collect(),
        AMQPValue::FieldTable(it) => write_table(it.inner()),
        AMQPValue::Void => Value::Null,
    };
    json!([value.get_type().get_id().to_string(), content])
}

pub(super) fn write_table(table: &Table) -> Value {
    let entries = table.iter().map(|(name, value)| (name.to_string(), write(value)));
    Value::Object(entries.collect())
}

/// The table that was written; damaged entries are left out.
pub(super) fn read_table(value: &Value) -> Table {
    let entries = value.as_object().into_iter().flatten();
    let read = |(name, value): (&String, &Value)| {
        Some((ShortString::try_new(name.as_str()).ok()?, read(value)?))
    };
    entries.filter_map(read).collect()
}

/// The value that was written; `None` if it is damaged.
fn read(value: &Value) -> Option<AMQPValue> {
    let [letter, content] = value.as_array()?.as_slice() else { return None };
    let kind = AMQPType::from_id(letter.as_str()?.chars().next()?)?;
    Some(match kind {
        AMQPType::Float => AMQPValue::Float(f32::from_bits(content.as_u64()?.try_into().ok()?)),
        AMQPType::Double => AMQPValue::Double(f64::from_bits(content.as_u64()?)),
        AMQPType::DecimalValue => {
            let (scale, value) = (content.get(0)?.as_u64()?, content.get(1)?.as_u64()?);
            let (scale, value) = (scale.try_into().ok()?, value.try_into().ok()?);
            AMQPValue::DecimalValue(DecimalValue { scale, value })
        }
        AMQPType::LongString => AMQPValue::LongString(long_string(content)?),
        AMQPType::ByteArray => {
            AMQPValue::ByteArray(ByteArray::from(STANDARD.decode(content.as_str()?).ok()?))
        }
        AMQPType::FieldArray => {
            let values = content.as_array()?.iter().map(read);
            AMQPValue::FieldArray(FieldArray::from(values.collect::<Option<Vec<_>>>()?))
        }
        AMQPType::FieldTable => {
            let entries = content.as_object()?.iter();
            let read = |(name, value): (&String, &Value)| {
                Some((ShortString::try_new(name.as_str()).ok()?, read(value)?))
            };
            AMQPValue::FieldTable(entries.map(read).collect::<Option<Table>>()?.into())
        }
        AMQPType::Void => AMQPValue::Void,
        whole => AMQPValue::try_from(content, whole)?,
    })
}

fn long_string(content: &Value) -> Option<LongString> {
    match content {
        Value::String(text) => Some(text.as_str().into()),
        other => Some(STANDARD.decode(other.get(0)?.as_str()?).ok()?.into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use lapin::types::FieldTable;

    use super::*;

    /// One value of every type that AMQP knows.
    pub(crate) fn every_type() -> Vec<AMQPValue> {
        let flat = vec![
            AMQPValue::Boolean(true),
            AMQPValue::ShortShortInt(-1),
            AMQPValue::ShortShortUInt(200),
            AMQPValue::ShortInt(-300),
            AMQPValue::ShortUInt(60_000),
            AMQPValue::LongInt(-70_000),
            AMQPValue::LongUInt(4_000_000_000),
            AMQPValue::LongLongInt(i64::MIN),
            AMQPValue::Float(0.1),
            AMQPValue::Double(0.1 + 0.2),
            AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 }),
            AMQPValue::LongString("St. Mary's 🏥".into()),
            AMQPValue::LongString(b"\xff\x00".to_vec().into()),
            AMQPValue::Timestamp(1_700_000_000),
            AMQPValue::ByteArray(ByteArray::from(vec![0, 255])),
            AMQPValue::Void,
        ];
        let mut table = FieldTable::default();
        table.insert("inner".into(), AMQPValue::LongInt(7));
        let array = AMQPValue::FieldArray(FieldArray::from(flat.clone()));
        table.insert("array".into(), array.clone());
        flat.into_iter().chain([array, AMQPValue::FieldTable(table)]).collect()
    }

    #[test]
    fn every_type_is_restored() {
        for value in every_type().into_iter().chain([AMQPValue::Double(f64::INFINITY)]) {
            let text = write(&value).to_string();
            let again = read(&serde_json::from_str(&text).unwrap());
            assert_eq!(again, Some(value), "{text}");
        }
    }

    #[test]
    fn damaged_values_are_none() {
        for damaged in [json!(7), json!(["I"]), json!(["I", "seven"]), json!(["?", 1]), json!([])] {
            assert_eq!(read(&damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_writable_value_can_be_read() {
        let nested = |depth| {
            let wrap = |inner| AMQPValue::FieldArray(FieldArray::from(vec![inner]));
            (1..depth).fold(AMQPValue::Void, |inner, _| wrap(inner))
        };
        let deepest = nested(DEPTH_LIMIT);
        assert!(is_writable(&deepest));
        let text = write(&deepest).to_string();
        assert_eq!(read(&serde_json::from_str(&text).unwrap()), Some(deepest));
        assert!(!is_writable(&nested(DEPTH_LIMIT + 1)));
    }
}

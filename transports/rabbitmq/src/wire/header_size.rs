//! The encoded size of headers: all of them must fit into one frame.

use lapin::types::AMQPValue;

use super::header_table::Table;

/// What a frame of 131,072 bytes leaves for headers: without its own 8 bytes, eleven other properties of at most 256
/// bytes, and the routing keys of a delayed message.
pub(crate) const LIMIT_BYTES: usize = 131_072 - 8 - 12 * 256 - 256;
/// What a sender must leave for our headers: counters, a reason, where the message came from.
pub(crate) const OURS_BYTES: usize = 8 * 1024;

/// The encoded size of a table.
pub(crate) fn of_table(table: &Table) -> usize {
    let entries = table.iter().map(|(name, value)| 1 + name.as_str().len() + of_value(value));
    4 + entries.sum::<usize>()
}

pub(crate) fn of_value(value: &AMQPValue) -> usize {
    1 + match value {
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::LongString(text) => 4 + text.len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.len(),
        AMQPValue::FieldArray(values) => 4 + values.as_slice().iter().map(of_value).sum::<usize>(),
        AMQPValue::FieldTable(table) => of_table(table.inner()),
        AMQPValue::Void => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_table_is_its_encoded_size() {
        let mut table = Table::default();
        assert_eq!(of_table(&table), 4);
        table.insert("ab".into(), AMQPValue::LongString("xyz".into()));
        assert_eq!(of_table(&table), 4 + 3 + 1 + 4 + 3);
        let mut outer = Table::default();
        outer.insert("t".into(), AMQPValue::FieldTable(table.into()));
        assert_eq!(of_table(&outer), 4 + 2 + 1 + 14 + 1);
    }
}

//! How often the broker's consumer timeout has ended a delivery, as a header. It belongs to the deliveries without an
//! outcome that the ledger counts, and goes with them: only a copy that counts or keeps them has it.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::{
    Raw,
    header_names::TIMEOUTS,
    header_table::{number, table_of},
};

/// The number of deliveries that the timeout has ended.
pub(crate) fn timeouts(raw: &Raw) -> u32 {
    let headers = raw.properties.headers().as_ref().map(FieldTable::inner);
    let count = headers.and_then(|headers| number(headers, TIMEOUTS)).unwrap_or(0);
    u32::try_from(count).unwrap_or(0)
}

/// The same properties, with this number.
pub(crate) fn with_timeouts(properties: BasicProperties, count: u32) -> BasicProperties {
    if count == 0 {
        return properties;
    }
    let mut headers = table_of(&properties);
    headers.insert(TIMEOUTS.into(), AMQPValue::LongLongInt(count.into()));
    properties.with_headers(headers.into())
}

//! How members of requests are read where serde accepts more or less than JSON Schema says.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Number, Value};

use super::DeadLetterFilter;

/// A whole number; `3.0` is one, too.
pub(super) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<T, D::Error> {
    let number = Number::deserialize(from)?;
    let float = || number.as_f64().filter(|it| it.fract() == 0.0 && (0.0..1e19).contains(it));
    let whole = number.as_u64().or_else(|| float().map(|it| it as u64));
    whole.and_then(|it| T::try_from(it).ok()).ok_or_else(|| D::Error::custom("not a whole number"))
}

/// The same, or null.
pub(super) fn optional_whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(bound = "T: TryFrom<u64>")]
    struct Whole<T>(#[serde(deserialize_with = "whole")] T);
    Ok(Option::<Whole<T>>::deserialize(from)?.map(|it| it.0))
}

/// A filter, which is an object: serde would also take an array of its members.
pub(super) fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<DeadLetterFilter, D::Error> {
    let object = Map::deserialize(from)?;
    serde_json::from_value(Value::Object(object)).map_err(D::Error::custom)
}

/// The same, or null.
pub(super) fn optional_filter<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<DeadLetterFilter>, D::Error> {
    #[derive(Deserialize)]
    struct Object(#[serde(deserialize_with = "filter")] DeadLetterFilter);
    Ok(Option::<Object>::deserialize(from)?.map(|it| it.0))
}

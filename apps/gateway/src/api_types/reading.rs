//! How members of requests are read where serde accepts more or less than JSON Schema says.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use bezoar::Message;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::{DeadLetterFilter, Hidden};

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

/// The value of a header, or its change.
pub(super) trait HeaderText {
    fn len_bytes(&self) -> usize;
}

impl HeaderText for String {
    fn len_bytes(&self) -> usize {
        self.len()
    }
}

impl HeaderText for Option<Hidden<String>> {
    fn len_bytes(&self) -> usize {
        self.as_ref().map_or(0, |value| value.reveal().len())
    }
}

/// Headers of a message, each at most once. What exceeds the limits of a message is skipped after the first header that
/// does, which stays: [`Message::check_headers`] then refuses them by name, and they fill no memory before.
pub(super) fn headers<'de, D: Deserializer<'de>, V: HeaderText + Deserialize<'de>>(
    from: D,
) -> Result<BTreeMap<String, V>, D::Error> {
    from.deserialize_map(HeaderVisitor(PhantomData))
}

struct HeaderVisitor<V>(PhantomData<V>);

impl<'de, V: HeaderText + Deserialize<'de>> Visitor<'de> for HeaderVisitor<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let (mut headers, mut bytes) = (BTreeMap::new(), 0);
        while let Some((name, value)) = from.next_entry::<String, V>()? {
            bytes += name.len() + value.len_bytes();
            if headers.insert(name, value).is_some() {
                return Err(A::Error::custom("repeated header"));
            }
            if headers.len() > Message::MAX_HEADERS || bytes > Message::MAX_HEADER_BYTES {
                while from.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Holder {
        #[serde(deserialize_with = "headers")]
        headers: BTreeMap<String, String>,
    }

    fn read(members: impl Iterator<Item = String>) -> Option<usize> {
        let text = format!("{{\"headers\":{{{}}}}}", members.collect::<Vec<_>>().join(","));
        serde_json::from_str::<Holder>(&text).ok().map(|holder| holder.headers.len())
    }

    #[test]
    fn headers_are_kept_up_to_the_first_beyond_a_limit() {
        let tiny = |count: usize| (0..count).map(|n| format!("\"{n}\":\"\""));
        for (count, kept) in [(0, 0), (1_000, 1_000), (1_001, 1_001), (50_000, 1_001)] {
            assert_eq!(read(tiny(count)), Some(kept));
        }
        let large = |count: usize| (0..count).map(|n| format!("\"{n}\":\"{:30000}\"", ""));
        assert_eq!((read(large(2)), read(large(9))), (Some(2), Some(3)));
    }

    #[test]
    fn a_repeated_header_is_refused() {
        let twice = ["\"a\":\"1\"", "\"a\":\"2\""];
        assert_eq!(read(twice.into_iter().map(str::to_owned)), None);
    }
}

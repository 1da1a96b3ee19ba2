//! Lists of the gateway's API, read only for the names and ids in them.

use serde_json::Value;

/// The objects of a list, which is an array or the only array of an object.
pub(crate) fn items(listed: &Value) -> impl Iterator<Item = &Value> {
    let members = listed.as_object().into_iter().flat_map(|object| object.values());
    let list = listed.as_array().or_else(|| members.into_iter().find_map(Value::as_array));
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_shape_of_a_list_is_understood() {
        for list in [json!([{ "id": 1 }]), json!({ "next": null, "items": [{ "id": 1 }] })] {
            assert_eq!(items(&list).collect::<Vec<_>>(), [&json!({ "id": 1 })]);
        }
        assert_eq!(items(&json!("no list")).count(), 0);
    }
}

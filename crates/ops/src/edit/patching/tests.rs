//! The results equal those of `json_patch`, and the cost is bounded. Work is counted, not timed.

use bezoar_core::Body;
use json_patch::Patch;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::edit::{
    PATCH_LIMIT,
    measure::{meter, written},
    patched,
};

const MIB: usize = 1 << 20;

fn patch(operations: impl IntoIterator<Item = Value>) -> Patch {
    serde_json::from_value(operations.into_iter().collect()).unwrap()
}

/// Patches the document; returns the result, and how many bytes were written or measured on the way.
fn run(
    document: &Value,
    operations: impl IntoIterator<Item = Value>,
    limit: usize,
) -> (Result<Value, EditError>, usize) {
    let body = Body::from(document.to_string());
    let patch = patch(operations);
    meter::take();
    let result = patched(&body, &patch, limit);
    let bytes = meter::take();
    (result.map(|body| serde_json::from_slice(body.reveal()).unwrap()), bytes)
}

/// An object of 1 MiB: a large member `text` and a few small ones.
fn large() -> Value {
    json!({ "text": "x".repeat(MIB - 100), "a": { "b": [1, 2, 3] }, "number": 0 })
}

#[test]
fn many_operations_on_a_large_body_do_not_write_it_each_time() {
    let operations = (0..PATCH_LIMIT as u64).map(|number| match number % 4 {
        0 => json!({ "op": "test", "path": "/a/b", "value": [1, 2, 3] }),
        1 => json!({ "op": "replace", "path": "/number", "value": number }),
        2 => json!({ "op": "move", "from": "/text", "path": "/elsewhere" }),
        _ => json!({ "op": "move", "from": "/elsewhere", "path": "/text" }),
    });
    let (result, bytes) = run(&large(), operations, 2 * MIB);
    assert_eq!(result.unwrap()["number"], 997);
    // Once to compare it with the original, once for the result.
    assert!(bytes < 3 * MIB, "{bytes} bytes were written or measured");
}

#[test]
fn copies_that_double_the_document_are_refused_once_they_exceed_the_limit() {
    let operations = (0..PATCH_LIMIT)
        .map(|number| json!({ "op": "copy", "from": "", "path": format!("/copy{number}") }));
    let (result, bytes) = run(&json!({ "a": "x".repeat(1_000) }), operations, MIB);
    let Err(EditError::TooLarge { actual, limit: MIB }) = result else { panic!("{result:?}") };
    assert!((MIB..3 * MIB).contains(&actual), "{actual}");
    assert!(bytes < 4 * MIB, "{bytes} bytes were written or measured");
}

#[test]
fn copies_that_replace_each_other_are_refused_after_a_bounded_amount() {
    let again = json!({ "op": "copy", "from": "/text", "path": "/copy" });
    let (result, bytes) = run(&large(), vec![again; PATCH_LIMIT], 2 * MIB);
    // Twice the limit's bytes per MiB, 16 times: the 33rd copy of a little less than a MiB.
    assert_eq!(result, Err(EditError::TooMuchWork(32)));
    assert!(bytes < 70 * MIB, "{bytes} bytes were written or measured");
}

#[test]
fn elements_that_are_shifted_again_and_again_are_refused() {
    let elements: Vec<_> = (0..90_000).map(|_| 1).collect();
    let insert = json!({ "op": "add", "path": "/0", "value": 2 });
    let remove = json!({ "op": "remove", "path": "/0" });
    for operation in [insert, remove] {
        let (result, _) = run(&json!(elements), vec![operation; PATCH_LIMIT], 2 * MIB);
        assert!(matches!(result, Err(EditError::TooMuchWork(300..400))), "{result:?}");
    }
    let append = json!({ "op": "add", "path": "/-", "value": 2 });
    let (result, _) = run(&json!(elements), vec![append; PATCH_LIMIT], 2 * MIB);
    assert_eq!(result.unwrap().as_array().unwrap().len(), elements.len() + PATCH_LIMIT);
}

#[test]
fn a_document_does_not_nest_deeper_than_parsers_accept() {
    let wrap = [
        json!({ "op": "add", "path": "/b", "value": {} }),
        json!({ "op": "move", "from": "/a", "path": "/b/a" }),
        json!({ "op": "move", "from": "/b", "path": "/a" }),
    ];
    let wraps = |times: usize| wrap.iter().cycle().take(3 * times).cloned();
    let (result, _) = run(&json!({ "a": 1 }), wraps(DEPTH_LIMIT - 1), MIB);
    assert!(result.is_ok(), "{result:?}");
    let (result, _) = run(&json!({ "a": 1 }), wraps(DEPTH_LIMIT), MIB);
    assert_eq!(result, Err(EditError::TooDeep(DEPTH_LIMIT)));
}

#[test]
fn moving_back_and_forth_is_not_mistaken_for_nesting() {
    let there = json!({ "op": "move", "from": "/a", "path": "/b/c" });
    let back = json!({ "op": "move", "from": "/b/c", "path": "/a" });
    let operations = [there, back].into_iter().cycle().take(PATCH_LIMIT);
    let document = json!({ "a": [[1]], "b": {} });
    assert_eq!(run(&document, operations, MIB).0, Ok(document));
}

#[test]
fn a_body_above_the_limit_may_shrink_but_not_grow() {
    let document = json!({ "text": "x".repeat(1_000), "a": 1 });
    let remove = json!({ "op": "remove", "path": "/text" });
    let test = json!({ "op": "test", "path": "/a", "value": 1 });
    assert_eq!(run(&document, [test, remove.clone()], 500).0, Ok(json!({ "a": 1 })));
    let add = json!({ "op": "add", "path": "/b", "value": 1 });
    let grown = run(&document, [add, remove], 500).0;
    assert!(matches!(grown, Err(EditError::TooLarge { .. })), "{grown:?}");
}

/// Names that need escapes, in a pointer or when they are written, and names that look like places in an array.
const NAMES: &[&str] = &["a", "b", "", "0", "1", "-", "01", "a/b", "m~n", "\"q\"", "é\n"];

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-100..100).prop_map(Value::from),
        Just(json!(1.5)),
        select(NAMES).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(NAMES), inner), 0..4).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

/// A place that may exist: each number picks a member or element of the previous one.
type Picks = (Vec<usize>, Option<&'static str>);

fn picks() -> impl Strategy<Value = Picks> {
    (vec(0..8_usize, 0..3), proptest::option::of(select(NAMES)))
}

/// The pointer to a place in this document, or to a missing one beside an existing place.
fn pointer(document: &Value, (picks, beside): &Picks) -> String {
    let (mut at, mut path) = (document, String::new());
    for pick in picks {
        let (token, next) = match at {
            Value::Array(elements) if !elements.is_empty() => {
                let index = pick % elements.len();
                (index.to_string(), &elements[index])
            }
            Value::Object(members) if !members.is_empty() => {
                let (name, next) = members.iter().nth(pick % members.len()).unwrap();
                (name.clone(), next)
            }
            _ => break,
        };
        path += &format!("/{}", Token::new(token.as_str()).encoded());
        at = next;
    }
    match beside {
        Some(name) => format!("{path}/{}", Token::new(*name).encoded()),
        None => path,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Each operation is chosen for the current state of the document, so that most of them apply.
    #[test]
    fn the_result_and_the_first_failure_are_those_of_json_patch(
        start in document(),
        wanted in vec((0..6, picks(), picks(), document()), 1..12),
    ) {
        let mut expected = start.clone();
        let mut patching = Patching::new(start.clone(), size(&start), MIB);
        for (place, (kind, from, path, value)) in wanted.into_iter().enumerate() {
            let (from, path) = (pointer(&expected, &from), pointer(&expected, &path));
            let found = expected.pointer(&path).cloned().unwrap_or_else(|| value.clone());
            let operation = match kind {
                0 => json!({ "op": "add", "path": path, "value": value }),
                1 => json!({ "op": "remove", "path": path }),
                2 => json!({ "op": "replace", "path": path, "value": value }),
                3 => json!({ "op": "move", "from": from, "path": path }),
                4 => json!({ "op": "copy", "from": from, "path": path }),
                _ => json!({ "op": "test", "path": path, "value": found }),
            };
            let step = patch([operation.clone()]);
            let theirs = json_patch::patch_unsafe(&mut expected, &step);
            match patching.apply(place, &step.0[0]) {
                Ok(()) => prop_assert!(theirs.is_ok(), "{operation}: {theirs:?}"),
                Err(error) => {
                    prop_assert!(theirs.is_err(), "{operation}: {error}");
                    prop_assert_eq!(error, EditError::Patch(place));
                    return Ok(());
                }
            }
            prop_assert_eq!(&patching.value, &expected);
            prop_assert_eq!(patching.bytes, written(&expected).len(), "{}", operation);
            prop_assert!(patching.depth >= depth(&expected));
        }
    }

    /// A whole patch is applied or refused as by the library, which leaves the document unchanged on
    /// failure.
    #[test]
    fn a_whole_patch_is_all_or_nothing(
        start in document(),
        wanted in vec((0..5, picks(), picks(), document()), 1..8),
    ) {
        let operations: Vec<_> = wanted.into_iter().map(|(kind, from, path, value)| {
            let (from, path) = (pointer(&start, &from), pointer(&start, &path));
            match kind {
                0 => json!({ "op": "add", "path": path, "value": value }),
                1 => json!({ "op": "remove", "path": path }),
                2 => json!({ "op": "replace", "path": path, "value": value }),
                3 => json!({ "op": "move", "from": from, "path": path }),
                _ => json!({ "op": "copy", "from": from, "path": path }),
            }
        }).collect();
        let mut theirs = start.clone();
        let expected = json_patch::patch_unsafe(&mut theirs, &patch(operations.clone()));
        let expected = match expected {
            Ok(()) => Ok(theirs),
            Err(error) => Err(EditError::Patch(error.operation)),
        };
        prop_assert_eq!(run(&start, operations, MIB).0, expected);
    }
}

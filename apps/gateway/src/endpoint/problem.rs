//! Parses `application/problem+json` (RFC 9457) replies of endpoints.

use bezoar::{Code, Detail, FailureKind};
use http::{HeaderMap, header::CONTENT_TYPE};
use serde_json::Value;

/// A problem document of an endpoint.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct EndpointProblem {
    /// The code from its `type`, if that yields a valid code.
    pub(super) code: Option<Code>,
    /// Its `title` and `detail`.
    pub(super) text: Option<Detail>,
    /// Its `kind`, if it is a known one.
    pub(super) kind: Option<FailureKind>,
}

/// The problem document in a reply, if there is a valid one.
pub(super) fn problem(headers: &HeaderMap, body: &[u8]) -> Option<EndpointProblem> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = content_type.split(';').next()?.trim();
    if !media_type.to_ascii_lowercase().ends_with("problem+json") {
        return None;
    }
    let Ok(Value::Object(members)) = serde_json::from_slice(body) else { return None };
    let text = |name| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let texts: Vec<_> = [text("title"), text("detail")].into_iter().flatten().collect();
    Some(EndpointProblem {
        code: text("type").and_then(code),
        text: (!texts.is_empty()).then(|| Detail::truncated(texts.join(": "))),
        kind: text("kind").and_then(kind),
    })
}

/// The kind that a text names: `not_found` is how it is documented; `not found`, `not-found` and `NotFound` mean the
/// same. `None` if it names none: the status decides then.
fn kind(text: &str) -> Option<FailureKind> {
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let wanted = letters(text);
    FailureKind::ALL.iter().copied().find(|kind| letters(kind.as_str()) == wanted)
}

/// The longest end of a type's path that is a code: `https://example.org/problems/out-of-stock` becomes
/// `problems/out-of-stock`. Host and query are omitted, and so is `about:blank`, which carries no information.
fn code(problem_type: &str) -> Option<Code> {
    if problem_type == "about:blank" {
        return None;
    }
    let (address, fragment) = problem_type.split_once('#').unwrap_or((problem_type, ""));
    let path = address.split('?').next().unwrap_or_default();
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_host, path)| path),
        None => path,
    };
    let segments: Vec<_> =
        path.split('/').chain([fragment]).filter(|segment| !segment.is_empty()).collect();
    (0..segments.len()).find_map(|first| Code::new(segments[first..].join("/")).ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn check(problem_type: &str, expected: &str) {
        let found = code(problem_type);
        assert_eq!(found.as_ref().map_or("", |code| code.as_str()), expected, "{problem_type}");
    }

    fn read(content_type: &str, body: &str) -> Option<EndpointProblem> {
        let value = HeaderValue::from_str(content_type).unwrap();
        problem(&HeaderMap::from_iter([(CONTENT_TYPE, value)]), body.as_bytes())
    }

    #[test]
    fn a_type_becomes_a_code_without_host_and_query() {
        check("https://example.org/problems/out-of-stock", "problems/out-of-stock");
        check("https://user:CANARY@example.org/a?token=CANARY", "a");
        check(
            "https://datatracker.ietf.org/html/rfc9110#section-15.5.1",
            "html/rfc9110/section-15.5.1",
        );
        check("urn:lab:unknown-analyte", "urn:lab:unknown-analyte");
        check("/problems//x/", "problems/x");
        check("out-of-stock", "out-of-stock");
    }

    #[test]
    fn leading_segments_give_way_until_it_is_a_code() {
        check("https://h/two%20words/out-of-stock", "out-of-stock");
        check(&format!("https://h/{}/end", "x".repeat(61)), "end");
        check(&format!("https://h/{}/end", "x".repeat(60)), &format!("{}/end", "x".repeat(60)));
    }

    #[test]
    fn an_unusable_type_gives_no_code() {
        let long = "x".repeat(65);
        for text in
            ["", "about:blank", "https://example.org", "https://h/", "Müller", &long, "/a b"]
        {
            check(text, "");
        }
    }

    #[test]
    fn title_and_detail_are_the_text() {
        let body =
            r#"{"type": "x/y", "title": "Out of stock", "detail": "none left", "status": 5}"#;
        let expected = EndpointProblem {
            code: Some(Code::from_static("x/y")),
            text: Some("Out of stock: none left".into()),
            kind: None,
        };
        for content_type in [
            "application/problem+json",
            "Application/Problem+JSON; charset=utf-8",
            "application/vnd.lab.problem+json",
        ] {
            assert_eq!(read(content_type, body).as_ref(), Some(&expected), "{content_type}");
        }
    }

    #[test]
    fn a_kind_is_read_in_every_usual_spelling() {
        for (text, expected) in [
            ("unknown", "unknown"),
            ("transient", "transient"),
            ("permanent", "permanent"),
            ("not_found", "not found"),
            ("not found", "not found"),
            ("not-found", "not found"),
            ("NotFound", "not found"),
            ("unauthorized", "unauthorized"),
            ("external_service", "external service"),
            ("database", "database"),
            ("ai_service", "AI service"),
            ("AI service", "AI service"),
            ("fatal", ""),
            ("", ""),
            ("permanent failure", ""),
        ] {
            assert_eq!(kind(text).map_or("", FailureKind::as_str), expected, "{text}");
        }
        let read = read("application/problem+json", r#"{"kind": 7}"#).unwrap();
        assert_eq!(read.kind, None);
    }

    #[test]
    fn other_bodies_are_not_problems() {
        assert_eq!(read("application/json", r#"{"type": "x"}"#), None);
        for body in ["", "[]", "{", "null", "\"x\"", &"[".repeat(50_000)] {
            assert_eq!(read("application/problem+json", body), None);
        }
        let odd = read("application/problem+json", r#"{"type": 1, "title": null, "detail": []}"#);
        assert_eq!(odd, Some(EndpointProblem { code: None, text: None, kind: None }));
    }

    proptest! {
        #[test]
        fn any_type_gives_a_code_of_its_own_characters_or_none(text: String) {
            if let Some(found) = code(&text) {
                let end = found.as_str().rsplit('/').next().unwrap().to_owned();
                prop_assert!(text.contains(&end));
            }
        }

        #[test]
        fn any_body_is_read_without_a_panic(body: Vec<u8>) {
            let value = HeaderValue::from_static("application/problem+json");
            problem(&HeaderMap::from_iter([(CONTENT_TYPE, value)]), &body);
        }
    }
}

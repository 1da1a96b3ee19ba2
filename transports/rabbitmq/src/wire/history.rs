//! The failed tries of a message as one header: JSON that other programs can read.

use std::time::Duration;

use bezoar_core::{Attempt, Code, Detail, FailureKind, millis, to_millis};
use serde_json::{Value, json};

pub(crate) fn write(history: &[Attempt]) -> String {
    Value::Array(history.iter().map(write_one).collect()).to_string()
}

fn write_one(attempt: &Attempt) -> Value {
    json!({
        "generation": attempt.generation,
        "number": attempt.number,
        "tried": attempt.tried,
        "at": attempt.at.as_millisecond(),
        "duration_ms": to_millis(attempt.duration),
        "kind": attempt.kind.as_str(),
        "code": attempt.code.as_str(),
        "detail": attempt.detail.reveal(),
    })
}

/// What can be read of it; a header that somebody damaged is no reason to stop a queue.
pub(crate) fn read(text: &str) -> Vec<Attempt> {
    match serde_json::from_str(text) {
        Ok(Value::Array(attempts)) => attempts.iter().map(read_one).collect(),
        _ => Vec::new(),
    }
}

fn read_one(attempt: &Value) -> Attempt {
    let number = |name: &str| attempt[name].as_u64().unwrap_or(0);
    let count = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
    let text = |name: &str| attempt[name].as_str().unwrap_or_default();
    Attempt {
        generation: count("generation"),
        number: count("number"),
        tried: count("tried"),
        at: millis(attempt["at"].as_i64().unwrap_or(0)),
        duration: Duration::from_millis(number("duration_ms")),
        kind: text("kind").parse().unwrap_or(FailureKind::Unknown),
        code: Code::new(text("code")).unwrap_or(Code::UNKNOWN),
        detail: Detail::truncated(text("detail").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::Failure;

    use super::*;

    #[test]
    fn a_history_comes_back() {
        let failure = Failure::transient("no \"room\"\0\n🏥");
        let tries = [Attempt::failed(millis(-5), Duration::from_millis(7), &failure)];
        assert_eq!(read(&write(&tries)), tries);
    }

    #[test]
    fn what_is_damaged_is_read_as_far_as_it_goes() {
        assert_eq!(read("no JSON"), []);
        assert_eq!(read("{}"), []);
        assert_eq!(read(r#"[{"number": -1, "kind": 7}]"#)[0].number, 0);
    }
}

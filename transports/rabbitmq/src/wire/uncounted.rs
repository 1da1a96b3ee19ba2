//! The summary of failures that used up no retry, as one header: JSON that other programs can read.

use std::{borrow::Cow, time::Duration};

use bezoar_core::{Code, UncountedSummary, millis, to_millis};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Summary<'a> {
    count: u32,
    suspected: u32,
    first: i64,
    last: i64,
    waited_ms: i64,
    code: Cow<'a, str>,
}

pub(super) fn write(uncounted: &UncountedSummary) -> String {
    let summary = Summary {
        count: uncounted.count,
        suspected: uncounted.suspected,
        first: uncounted.first.as_millisecond(),
        last: uncounted.last.as_millisecond(),
        waited_ms: to_millis(uncounted.waited),
        code: uncounted.code.as_str().into(),
    };
    serde_json::to_string(&summary).expect("numbers and texts can be written")
}

/// A damaged header counts as none: it does not count against the message.
pub(super) fn read(text: &str) -> Option<UncountedSummary> {
    let summary: Summary<'_> = serde_json::from_str(text).ok()?;
    Some(UncountedSummary {
        count: summary.count,
        suspected: summary.suspected,
        first: millis(summary.first),
        last: millis(summary.last),
        waited: Duration::from_millis(summary.waited_ms.max(0).cast_unsigned()),
        code: Code::new(&*summary.code).unwrap_or(Code::UNKNOWN),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_restored_and_a_damaged_one_is_none() {
        let uncounted = UncountedSummary {
            count: 3,
            suspected: 1,
            first: millis(-5),
            last: millis(7),
            waited: Duration::from_millis(12),
            code: Code::from_static("http.503"),
        };
        assert_eq!(read(&write(&uncounted)), Some(uncounted));
        assert_eq!(read("{}"), None);
        assert_eq!(read("no JSON"), None);
    }
}

//! Whatever is written, it loads or says what is wrong and where.

use proptest::prelude::*;

use super::{examples::EVERYTHING, *};
use crate::config::{Origin, contradictions, keys, show_text};

/// Loads, or gives problems that each say where, what and what to do.
fn check(sources: &Sources) -> Result<(), TestCaseError> {
    match load(sources, &resolve) {
        Ok(loaded) => {
            prop_assert!(!show_text(&loaded).is_empty());
            let _ = contradictions(&loaded.config);
            prop_assert!(loaded.config.differences(&loaded.config).is_empty());
        }
        Err(problems) => {
            for problem in problems.list() {
                prop_assert!(problem.origin != Origin::Default, "{}", problem);
                prop_assert!(!problem.problem.is_empty() && !problem.remedy.is_empty());
                prop_assert_eq!(
                    problem.to_string().lines().count(),
                    if problem.excerpt.is_some() { 3 } else { 1 }
                );
            }
        }
    }
    Ok(())
}

/// Values of all types, right and wrong.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "true", "1", "-1", "0.5", "nan", "inf", "1979-05-27", "''", "'30s'", "'1MiB'", "'http://h/'",
    "'http://u:p@h'", "'env:TOKEN'", "'env:NONE'", "'file:/x'", "[]", "['a']", "[1]", "{}",
    "{ a = 1 }", "'127.0.0.1:0'", "'0.0.0.0:1'", "'sqlite:x'", "'10.0.0.0/8'", "'jobs'", "'5/s'",
    "9223372036854775808", "'a'", "[[1]]", "[{}]", "'auto'", "'off'", "'json'", "'ä/ö'", "\"\\n\"",
];

fn value() -> impl Strategy<Value = String> {
    prop_oneof![prop::sample::select(VALUES).prop_map(str::to_owned), "'[ -&(-~]{0,20}'"]
}

/// A file in which some keys that exist are set to some values.
fn settings() -> impl Strategy<Value = String> {
    let key = (0..keys().len()).prop_map(|index| keys()[index].path);
    let line = (key, value()).prop_map(|(path, value)| match path.rsplit_once("[].") {
        None => format!("{path} = {value}\n"),
        Some((list, key)) => format!("[[{list}]]\n{key} = {value}\n"),
    });
    prop::collection::vec(line, 0..12).prop_map(|mut lines| {
        lines.sort_by_key(|line| line.starts_with("[["));
        lines.concat()
    })
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "(\\PC|\\n|\\r|\\t|[=\\[\\]{}\"'#.,]){0,200}") {
        check(&sources(&text))?;
    }

    #[test]
    fn arbitrary_values_of_keys_never_panic(text in settings()) {
        check(&sources(&text))?;
    }

    #[test]
    fn a_mutated_configuration_loads_or_says_what_is_wrong(
        at in 0..EVERYTHING.len(), length in 0..30_usize, inserted in "(\\PC|\\n|[=\\[\\]{}\"']){0,6}",
    ) {
        let mut text: Vec<char> = EVERYTHING.chars().collect();
        let at = at.min(text.len());
        let end = (at + length).min(text.len());
        text.splice(at..end, inserted.chars());
        check(&sources(&text.into_iter().collect::<String>()))?;
    }

    #[test]
    fn lines_in_any_order_load_or_say_what_is_wrong(order in Just(EVERYTHING.lines().collect::<Vec<_>>()).prop_shuffle()) {
        check(&sources(&order.join("\n")))?;
    }

    #[test]
    fn arbitrary_variables_and_flags_never_panic(
        names in prop::collection::vec("(SERVER|ROUTE|TOKEN|NETWORK|QUEUE)(__([0-9]{1,3}|[A-Z_]{1,8})){0,4}", 0..6),
        keys in prop::collection::vec("[a-z_.\\[\\]0-9]{0,20}|\\PC{0,10}", 0..6),
        text in "\\PC{0,20}|true|1|30s|a,b",
    ) {
        let environment = names.iter().map(|name| (format!("BEZOAR_{name}"), text.clone())).collect();
        let flags = keys.iter().map(|key| (key.clone(), text.clone())).collect();
        check(&Sources { environment, flags, ..sources(EVERYTHING) })?;
    }
}

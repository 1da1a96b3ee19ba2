//! Negative controls of the suite: transports with one defect each, and the cases that must fail.

#![expect(clippy::unwrap_used, reason = "test code")]

mod support;

use std::collections::BTreeSet;

use bezoar_conformance::{Listed, all};

use support::{Control, SmallQueues, Verdict, controls, run, unbroken};

#[test]
fn every_defect_is_caught_by_the_cases_named_for_it() {
    let missed: Vec<String> = controls()
        .iter()
        .flat_map(|control| control.caught_by.iter().map(move |name| (control, *name)))
        .filter(|(control, name)| !matches!(run(&named(name), control), Verdict::Caught(_)))
        .map(|(control, name)| format!("{} was not caught by {name}", control.defect_name))
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_case_catches_some_defect() {
    let controls = controls();
    let named: BTreeSet<&str> =
        controls.iter().flat_map(|control| control.caught_by).copied().collect();
    let idle: Vec<String> = all()
        .iter()
        .map(|case| format!("{case:?}"))
        .filter(|case| !named.contains(case.as_str()))
        .collect();
    assert!(
        idle.is_empty(),
        "no defect makes these cases fail; add one, or delete the case: {idle:#?}"
    );
}

#[test]
fn an_unbroken_transport_passes_every_case() {
    let failed: Vec<String> = all()
        .iter()
        .filter_map(|case| match run(case, &unbroken()) {
            Verdict::Passed => None,
            Verdict::Skipped => Some(format!("{case:?} was skipped")),
            Verdict::Caught(why) => Some(format!("{case:?}: {why}")),
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_transport_with_small_limits_passes_every_case_that_it_does_not_skip() {
    let small = Control::new("small limits", SmallQueues::default, &[]);
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for case in all() {
        match run(&case, &small) {
            Verdict::Passed => passed += 1,
            Verdict::Skipped => skipped += 1,
            Verdict::Caught(why) => failed.push(format!("{case:?}: {why}")),
        }
    }
    println!("{passed} cases passed, {skipped} were skipped");
    assert!(failed.is_empty(), "{} of {passed}:\n{}", failed.len(), failed.join("\n"));
    assert!(passed >= 146, "fewer cases run than before: {passed}, {skipped} were skipped");
}

fn named(name: &str) -> Listed {
    let case = all().into_iter().find(|case| format!("{case:?}") == name);
    case.unwrap_or_else(|| panic!("there is no case {name}"))
}

//! What a scraper reads, read strictly.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of a text, by series as they are written. Panics where the format is broken.
pub(super) fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut helped = BTreeSet::new();
    let mut types = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help has a text");
            assert!(!help.is_empty() && helped.insert(name), "{line}");
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect("a type has a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name, kind).is_none(), "{line}");
        } else {
            let (series, value) = sample(line);
            let name = series.split('{').next().expect("a split has a first part");
            let family = family(name, &types);
            assert!(helped.contains(family) && types.contains_key(family), "{line}");
            assert!(name.starts_with("bezoar_"), "{line}");
            assert!(types[family] != "counter" || name.ends_with("_total"), "{line}");
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    samples
}

fn sample(line: &str) -> (&str, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
    (series, value.parse().expect("a value is a number"))
}

/// The family of a sample: of a histogram's parts, the histogram.
fn family<'a>(name: &'a str, types: &BTreeMap<&str, &str>) -> &'a str {
    let parts = ["_bucket", "_sum", "_count"].into_iter();
    let histogram = parts.filter_map(|part| name.strip_suffix(part));
    let mut histogram = histogram.filter(|name| types.get(name) == Some(&"histogram"));
    histogram.next().unwrap_or(name)
}

#[test]
#[should_panic(expected = "twice")]
fn a_series_that_is_there_twice_is_noticed() {
    parse(
        "# HELP bezoar_a_total a\n# TYPE bezoar_a_total counter\nbezoar_a_total 1\nbezoar_a_total 2\n",
    );
}

#[test]
#[should_panic(expected = "bezoar_b")]
fn a_sample_without_help_and_type_is_noticed() {
    parse("bezoar_b 1\n");
}

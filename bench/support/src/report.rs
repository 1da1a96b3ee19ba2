//! The table: what | per second | ratio | needed | ok.

use std::fmt::{self, Display, Formatter};

use anyhow::Result;

use crate::{Measurement, Rounds};

const HEADINGS: [&str; 5] = ["what", "per second", "ratio", "needed", "ok"];

/// What a run has shown, in the order it was added.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<Line>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Line {
    what: String,
    per_second: String,
    comparison: Option<Comparison>,
}

#[derive(Debug, Clone, Copy)]
struct Comparison {
    figure: f64,
    bound: Bound,
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    None,
    AtLeast(f64),
    AtMost(f64),
}

impl Report {
    /// A rate that others are compared with.
    pub fn rate(&mut self, measured: &Measurement) {
        self.push(measured.name.clone(), number(measured.per_second), None);
    }

    /// A rate beside another; with `needed` the run fails unless the ratio is at least that.
    pub fn compare(&mut self, subject: &Measurement, baseline: &Measurement, needed: Option<f64>) {
        let bound = needed.map_or(Bound::None, Bound::AtLeast);
        let comparison = Comparison { figure: subject.per_second / baseline.per_second, bound };
        let what = format!("{} / {}", subject.name, baseline.name);
        self.push(what, number(subject.per_second), Some(comparison));
    }

    /// The same, with a ratio that was taken round by round.
    pub fn compare_rounds(
        &mut self,
        rounds: &Rounds,
        [subject, baseline]: [&str; 2],
        needed: Option<f64>,
    ) -> Result<()> {
        let figure = rounds.ratio(subject, baseline)?;
        let bound = needed.map_or(Bound::None, Bound::AtLeast);
        let rate = number(rounds.median(subject)?.per_second);
        let what = format!("{subject} / {baseline}");
        self.spread(&what, rounds.ratios(subject, baseline));
        self.push(what, rate, Some(Comparison { figure, bound }));
        Ok(())
    }

    /// A line under the table: how far the figures of the rounds are apart.
    pub fn spread(&mut self, what: &str, mut figures: Vec<f64>) {
        figures.sort_by(f64::total_cmp);
        if let [least, .., most] = figures[..] {
            let rounds = figures.len();
            self.note(format!("{what}: {least:.2} to {most:.2} in {rounds} rounds"));
        }
    }

    /// A figure that must not be larger.
    pub fn at_most(&mut self, what: &str, figure: f64, most: f64) {
        let bound = Bound::AtMost(most);
        self.push(what.to_owned(), String::new(), Some(Comparison { figure, bound }));
    }

    /// Something that could not be measured: a reason, never a number.
    pub fn unavailable(&mut self, name: &str, reason: &str) {
        self.push(name.to_owned(), format!("not available: {reason}"), None);
    }

    /// A line under the table, such as the settings behind a figure.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Whether every needed ratio was reached.
    pub fn passed(&self) -> bool {
        self.lines.iter().filter_map(|line| line.comparison).all(|c| c.ok() != Some(false))
    }

    fn push(&mut self, what: String, per_second: String, comparison: Option<Comparison>) {
        self.lines.push(Line { what, per_second, comparison });
    }
}

impl Comparison {
    fn ok(self) -> Option<bool> {
        match self.bound {
            Bound::None => None,
            Bound::AtLeast(least) => Some(self.figure >= least),
            Bound::AtMost(most) => Some(self.figure <= most),
        }
    }
}

impl Bound {
    fn text(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::AtLeast(least) => Some(format!("≥ {least}")),
            Self::AtMost(most) => Some(format!("≤ {most}")),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 5]> = self.lines.iter().map(Line::cells).collect();
        let widths = widths(&rows);
        write_row(f, &HEADINGS.map(str::to_owned), &widths)?;
        write_row(f, &widths.map(|width| "-".repeat(width)), &widths)?;
        rows.iter().try_for_each(|row| write_row(f, row, &widths))?;
        writeln!(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

impl Line {
    fn cells(&self) -> [String; 5] {
        let ratio = self.comparison.map(|c| format!("{:.2}", c.figure));
        let needed = self.comparison.and_then(|c| c.bound.text());
        let ok = self.comparison.and_then(Comparison::ok).map(|ok| if ok { "yes" } else { "NO" });
        [
            self.what.clone(),
            self.per_second.clone(),
            ratio.unwrap_or_default(),
            needed.unwrap_or_default(),
            ok.unwrap_or_default().to_owned(),
        ]
    }

    /// A reason may be long; it runs over the empty cells to its right instead of widening them.
    const MEASURED_WIDTH: usize = 10;
}

fn widths(rows: &[[String; 5]]) -> [usize; 5] {
    let mut widths = HEADINGS.map(str::len);
    for row in rows {
        widths[0] = widths[0].max(row[0].chars().count());
    }
    widths[1] = Line::MEASURED_WIDTH;
    widths
}

fn write_row(f: &mut Formatter<'_>, cells: &[String; 5], widths: &[usize; 5]) -> fmt::Result {
    let [what, per_second, ratio, needed, ok] = cells;
    let [w0, w1, w2, w3, w4] = widths;
    let line = format!("{what:w0$} | {per_second:>w1$} | {ratio:>w2$} | {needed:>w3$} | {ok:w4$}");
    writeln!(f, "{}", line.trim_end_matches([' ', '|']))
}

/// Whole, with thousands apart: what is measured is not known to a fraction of a message.
fn number(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(name: &str, per_second: f64) -> Measurement {
        Measurement::new(name, per_second)
    }

    #[test]
    fn missed_ratio_fails_the_run_and_shows_as_no() {
        let mut report = Report::default();
        report.compare(&rate("ours", 40.0), &rate("limit", 100.0), Some(0.5));
        assert!(!report.passed());
        assert!(report.to_string().contains("NO"), "{report}");
    }

    #[test]
    fn reached_and_informative_ratios_pass() {
        let mut report = Report::default();
        report.compare(&rate("ours", 60.0), &rate("limit", 100.0), Some(0.5));
        report.compare(&rate("ours", 1.0), &rate("limit", 100.0), None);
        report.unavailable("peer", "no network");
        assert!(report.passed(), "{report}");
    }

    #[test]
    fn the_spread_of_a_ratio_is_under_the_table() {
        let mut rounds = Rounds::default();
        for ours in [60.0, 40.0, 50.0] {
            rounds.add([rate("ours", ours), rate("limit", 100.0)]);
        }
        let mut report = Report::default();
        report.compare_rounds(&rounds, ["ours", "limit"], None).unwrap();
        assert!(report.to_string().contains("ours / limit: 0.40 to 0.60 in 3 rounds"), "{report}");
    }

    #[test]
    fn unavailable_shows_its_reason_and_no_number() {
        let mut report = Report::default();
        report.unavailable("peer", "no network");
        assert!(report.to_string().contains("not available: no network"), "{report}");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (rate, expected) in
            [(0.4, "0"), (999.0, "999"), (1000.0, "1,000"), (1234567.8, "1,234,568")]
        {
            assert_eq!(number(rate), expected);
        }
    }
}

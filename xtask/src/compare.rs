//! `cargo xtask compare <name> <revision>`: a benchmark of this tree beside the same benchmark of an older revision.
//!
//! Both programs are built for release, then take turns, so that a busy moment of the machine hits them alike. Each
//! round gives a ratio for every rate that both report; the median of a rate's ratios decides.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    dist,
    process::{cargo, output, run as run_command},
    say::say,
};

/// A rate below this share of the older one fails: medians of three rounds still vary by a few percent.
const NEEDED_RATIO: f64 = 0.9;

/// Rates of one run, by the name of their row.
type Rates = BTreeMap<String, f64>;

/// Builds both programs and runs them in turns; fails if a rate fell below [`NEEDED_RATIO`].
pub(crate) fn run(
    root: &Path,
    name: &str,
    revision: &str,
    rounds: u32,
    arguments: &[String],
) -> Result<()> {
    let package = format!("bench-{name}");
    let target = dist::target(root)?;
    let commit = output(Command::new("git").current_dir(root).args([
        "rev-parse",
        "--verify",
        &format!("{revision}^{{commit}}"),
    ]))?;
    let before = target.join("compare").join(commit.trim());
    check_out(root, &before, commit.trim())?;
    build(&before, &before.join("target"), &package)?;
    build(root, &target, &package)?;
    let programs =
        [before.join("target/release").join(&package), target.join("release").join(&package)];
    let mut measured: Vec<[Rates; 2]> = Vec::new();
    for round in 1..=rounds {
        say(format_args!("round {round} of {rounds}"));
        let [older, newer] = &programs;
        measured.push([measure(older, arguments)?, measure(newer, arguments)?]);
    }
    let rows = compare(&measured);
    say(format_args!("{}", table(&rows)));
    let slower: Vec<_> = rows.iter().filter(|row| row.ratio < NEEDED_RATIO).collect();
    ensure!(
        slower.is_empty(),
        "{} of {} rates fell below {NEEDED_RATIO}",
        slower.len(),
        rows.len()
    );
    Ok(())
}

/// A work tree of its own, kept for the next comparison with the same commit.
fn check_out(root: &Path, folder: &Path, commit: &str) -> Result<()> {
    if folder.join("Cargo.toml").is_file() {
        return Ok(());
    }
    fs::create_dir_all(folder.parent().context("a folder in target has a parent")?)?;
    let git =
        |arguments: &[&str]| run_command(Command::new("git").current_dir(root).args(arguments));
    git(&["worktree", "prune"])?;
    git(&["worktree", "add", "--detach", &folder.to_string_lossy(), commit])
}

fn build(root: &Path, target: &Path, package: &str) -> Result<()> {
    let mut build = cargo(root);
    run_command(
        build.args(["build", "--release", "--package", package]).env("CARGO_TARGET_DIR", target),
    )
}

/// Runs a benchmark. Its exit status is ignored, because a benchmark also fails if it misses a ratio of its own;
/// only its table counts here.
fn measure(program: &Path, arguments: &[String]) -> Result<Rates> {
    let ran = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let rates = rates(&String::from_utf8_lossy(&ran.stdout));
    ensure!(
        !rates.is_empty(),
        "{} reported no rates:\n{}",
        program.display(),
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(rates)
}

/// The rows of a report that have a rate.
fn rates(report: &str) -> Rates {
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim);
        let (what, per_second) = (cells.next()?, cells.next()?);
        let rate: u32 = per_second.replace(',', "").parse().ok()?;
        Some((what.split(" / ").next()?.to_owned(), rate.into()))
    };
    report.lines().skip_while(|line| !line.starts_with("---")).filter_map(row).collect()
}

/// One rate of both programs.
struct Row {
    what: String,
    older: f64,
    newer: f64,
    ratio: f64,
}

/// Medians over all rounds, of the rates that both programs reported in each of them.
fn compare(rounds: &[[Rates; 2]]) -> Vec<Row> {
    let Some([first, _]) = rounds.first() else { return Vec::new() };
    let row = |what: &String| {
        let pairs: Option<Vec<(f64, f64)>> = rounds
            .iter()
            .map(|[older, newer]| Some((*older.get(what)?, *newer.get(what)?)))
            .collect();
        let pairs = pairs?;
        Some(Row {
            what: what.clone(),
            older: median(pairs.iter().map(|pair| pair.0)),
            newer: median(pairs.iter().map(|pair| pair.1)),
            ratio: median(pairs.iter().map(|(older, newer)| newer / older)),
        })
    };
    first.keys().filter_map(row).collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:width$}  {:>10}  {:>10}  ratio", "what", "before", "now");
    for Row { what, older, newer, ratio } in rows {
        text.push_str(&format!("\n{what:width$}  {older:>10.0}  {newer:>10.0}  {ratio:.2}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
what                         | per second | ratio | needed | ok
---------------------------- | ---------- | ----- | ------ | --
bare SQLite                  |    123,456
bezoar, accept / bare SQLite |     61,728 |  0.50 |  ≥ 0.6 | NO
idle                         |            |  0.00 |    ≤ 1 | yes

limit: 2,000 at once
";

    #[test]
    fn rates_are_read_and_other_figures_are_not() {
        let expected =
            [("bare SQLite".to_owned(), 123_456.0), ("bezoar, accept".to_owned(), 61_728.0)];
        assert_eq!(rates(REPORT), Rates::from(expected));
    }

    #[test]
    fn the_median_of_the_ratios_decides() {
        let run = |rate| Rates::from([("accept".to_owned(), rate)]);
        let rounds = [[run(100.0), run(90.0)], [run(10.0), run(10.0)], [run(200.0), run(100.0)]];
        let rows = compare(&rounds);
        assert_eq!(rows.len(), 1);
        assert!((rows[0].ratio - 0.9).abs() < 1e-9);
        assert!(table(&rows).ends_with("0.90"), "{}", table(&rows));
    }

    #[test]
    fn a_rate_that_only_one_reports_is_left_out() {
        let rounds = [[Rates::from([("old".to_owned(), 1.0)]), Rates::new()]];
        assert!(compare(&rounds).is_empty());
    }
}

//! The tasks of this workspace, run as `cargo xtask <task>`.
//!
//! - `install.rs`, `test.rs`, `tidy.rs`, `bench.rs`, `compare.rs`, `dist.rs`: one file per task
//! - `python.rs`: clients of another language for tests
//! - `tidy/`: one file per structural check; `servers/`: one file per server that tests start
//! - `process.rs`, `steps.rs`, `say.rs`: how tasks start programs, time their steps and print

mod bench;
mod compare;
mod dist;
mod install;
mod process;
mod python;
mod say;
mod servers;
mod steps;
mod test;
mod tidy;

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::say::complain;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Development tasks of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the programs that the tests need and this machine lacks
    Install,
    /// Install missing programs, check the structure and run every test
    Test {
        /// Run only tests whose name contains one of these; flags for the test runner go after `--`
        filters: Vec<String>,
    },
    /// Run the long tests with their full counts; takes an hour on two cores
    Soak {
        /// Run only those whose name contains one of these
        filters: Vec<String>,
    },
    /// Check the structure: dependency direction, folder anatomy, documents, sources
    Tidy,
    /// Run a benchmark from the folder bench/
    Bench {
        /// The name of its folder
        name: String,
        /// Arguments for the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare a benchmark of this tree with an older revision; fail if a rate fell
    Compare {
        /// The name of its folder
        name: String,
        /// The revision to compare with: a commit, a tag or a branch
        revision: String,
        /// How many times each program runs
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Arguments for both benchmarks
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build the contents of a package: program, completions, manual pages, service unit
    Dist,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    match task {
        Task::Install => install::run(),
        Task::Test { filters } => test::run(root, &filters),
        Task::Soak { filters } => test::soak(root, &filters),
        Task::Tidy => tidy::run(root),
        Task::Bench { name, arguments } => bench::run(root, &name, &arguments),
        Task::Compare { name, revision, rounds, arguments } => {
            compare::run(root, &name, &revision, rounds, &arguments)
        }
        Task::Dist => dist::run(root),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn filters_are_taken_with_and_without_dashes() {
        for line in [["xtask", "test", "lease"].as_slice(), &["xtask", "test", "--", "lease"]] {
            let Task::Test { filters } = Arguments::parse_from(line).task else {
                panic!("{line:?} is no test run");
            };
            assert_eq!(filters, ["lease"]);
        }
    }

    #[test]
    fn a_benchmark_gets_its_own_flags() {
        let line = ["xtask", "bench", "embedded", "--messages", "5"];
        let Task::Bench { name, arguments } = Arguments::parse_from(line).task else {
            panic!("no benchmark");
        };
        assert_eq!((name.as_str(), arguments.join(" ").as_str()), ("embedded", "--messages 5"));
    }
}

//! The chores of this workspace, run as `cargo xtask <chore>`.
//!
//! - `install.rs`, `test.rs`, `tidy.rs`, `bench.rs`, `compare.rs`, `dist.rs`: one file per chore
//! - `tidy/`: one file per structural check; `servers/`: one file per server that tests start
//! - `process.rs`, `steps.rs`, `say.rs`: how chores start programs, time their steps and speak

mod bench;
mod compare;
mod dist;
mod install;
mod process;
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
#[command(bin_name = "cargo xtask", about = "The chores of this workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install the programs that the tests need and this machine lacks
    Install,
    /// Install what is missing, check the structure, run every test
    Test {
        /// Run only tests whose name contains one of these; flags of the test runner after `--`
        filters: Vec<String>,
    },
    /// Run the long tests with their full counts; an hour on two cores
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
        /// What follows is handed to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a benchmark of this tree and of an older revision in turns; fail if a rate fell
    Compare {
        /// The name of its folder
        name: String,
        /// The revision to compare with: a commit, a tag or a branch
        revision: String,
        /// How many times each program runs
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// What follows is handed to both programs
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build what a package holds: the program, completions, manual pages, a service
    Dist,
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    match chore {
        Chore::Install => install::run(),
        Chore::Test { filters } => test::run(root, &filters),
        Chore::Soak { filters } => test::soak(root, &filters),
        Chore::Tidy => tidy::run(root),
        Chore::Bench { name, arguments } => bench::run(root, &name, &arguments),
        Chore::Compare { name, revision, rounds, arguments } => {
            compare::run(root, &name, &revision, rounds, &arguments)
        }
        Chore::Dist => dist::run(root),
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
            let Chore::Test { filters } = Arguments::parse_from(line).chore else {
                panic!("{line:?} is no test run");
            };
            assert_eq!(filters, ["lease"]);
        }
    }

    #[test]
    fn a_benchmark_gets_its_own_flags() {
        let line = ["xtask", "bench", "embedded", "--messages", "5"];
        let Chore::Bench { name, arguments } = Arguments::parse_from(line).chore else {
            panic!("no benchmark");
        };
        assert_eq!((name.as_str(), arguments.join(" ").as_str()), ("embedded", "--messages 5"));
    }
}

//! `cargo xtask test`: runs all checks and tests, also on a fresh machine.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    install,
    process::{cargo, run as run_command, succeeds},
    python,
    say::say,
    servers::{Installation, PostgresServer, RabbitMq, azurite, postgres},
    steps::Steps,
    tidy,
};

/// Runs every step, then shows how long each took and which failed.
pub(crate) fn run(root: &Path, filters: &[String]) -> Result<()> {
    let mut steps = Steps::default();
    let outcome = run_steps(root, filters, &mut steps);
    say(format_args!("\n{}", steps.summary()));
    outcome
}

/// A server runs only during the suite that needs it. Suites run one after the other, so that each has the machine to
/// itself.
fn run_steps(root: &Path, filters: &[String], steps: &mut Steps) -> Result<()> {
    steps.run("install", install::run)?;
    let pika = steps.run("install pika", || python::PIKA.interpreter(root))?;
    steps.check("tidy", || tidy::run(root));
    let runner = Runner::available(root);
    for suite in suites(runner) {
        steps.check(suite.name, || suite.run(root, filters, &[]));
    }
    steps.check("tests with another HL7 library", || {
        let python = python::HL7.interpreter(root)?.display().to_string();
        HL7.run(root, filters, &[("BEZOAR_TEST_HL7", python)])
    });
    steps.check("tests with schemathesis", || {
        SCHEMATHESIS.run(root, filters, &[schemathesis_variable(root)?])
    });
    let brokers = Brokers { root, filters, pika, suite: rabbitmq_suite(runner) };
    let names = ["tests with RabbitMQ", "tests that kill RabbitMQ"];
    brokers.run(steps, names, &Installation::of_this_machine());
    match steps.run("fetch RabbitMQ 4.0", || Ok(Installation::four(root)))? {
        Ok(four) => {
            let names = ["tests with RabbitMQ 4.0", "tests that kill RabbitMQ 4.0"];
            brokers.run(steps, names, &four);
        }
        Err(reason) => {
            steps.ignore("tests with RabbitMQ 4.0", format!("not available: {reason:#}"));
        }
    }
    match steps.run("install Azurite", || Ok(azurite(root)))? {
        Ok(modules) => steps.check("tests with Azurite", || {
            AZURE.run(root, filters, &azure_environment(root, &modules)?)
        }),
        Err(reason) => {
            steps.ignore("tests with Azurite", format!("not available: {reason:#}"));
        }
    }
    match steps.run("install PostgreSQL", || Ok(postgres::install()))? {
        Ok(()) => steps.check("tests with PostgreSQL", || {
            let server = PostgresServer::start(root)?;
            postgres_suite(runner).run(root, filters, &server.environment())
        }),
        Err(reason) => {
            steps.ignore("tests with PostgreSQL", format!("not available: {reason:#}"));
        }
    }
    steps.outcome()
}

/// The environment variables by which tests find Azurite, Microsoft's clients and another HL7 library.
fn azure_environment(root: &Path, modules: &Path) -> Result<Vec<(&'static str, String)>> {
    let modules = modules.display().to_string();
    let python = python::AZURE.interpreter(root)?.display().to_string();
    let hl7 = python::HL7.interpreter(root)?.display().to_string();
    Ok(vec![
        ("BEZOAR_TEST_AZURITE", modules.clone()),
        ("BEZOAR_TEST_AZURE_NODE", modules),
        ("BEZOAR_TEST_AZURE_PYTHON", python),
        ("BEZOAR_TEST_HL7", hl7),
    ])
}

/// The environment variable by which tests find schemathesis.
fn schemathesis_variable(root: &Path) -> Result<(&'static str, String)> {
    let python = python::SCHEMATHESIS.interpreter(root)?.display().to_string();
    Ok(("BEZOAR_TEST_SCHEMATHESIS", python))
}

/// The suites that need RabbitMQ, for one version after the other.
struct Brokers<'a> {
    root: &'a Path,
    filters: &'a [String],
    pika: PathBuf,
    suite: Suite,
}

impl Brokers<'_> {
    fn run(
        &self,
        steps: &mut Steps,
        [shared, killed]: [&'static str; 2],
        installation: &Installation,
    ) {
        steps.check(shared, || {
            let broker = RabbitMq::start(self.root, installation)?;
            let mut environment = broker.environment();
            environment.push(("BEZOAR_TEST_PIKA", self.pika.display().to_string()));
            self.suite.run(self.root, self.filters, &environment)
        });
        steps.check(killed, || FAULTS.run(self.root, self.filters, &[installation.variable()]));
    }
}

/// `cargo xtask soak`: the tests that take too long for every run, each with the machine to itself.
pub(crate) fn soak(root: &Path, filters: &[String]) -> Result<()> {
    let mut steps = Steps::default();
    let all = ["soak_".to_owned()];
    let filters = if filters.is_empty() { &all } else { filters };
    steps.run("install", install::run)?;
    steps.check("soak", || {
        let broker = RabbitMq::start(root, &Installation::of_this_machine())?;
        let mut environment = broker.environment();
        environment.extend(azure_environment(root, &azurite(root)?)?);
        environment.push(schemathesis_variable(root)?);
        SOAK.run(root, filters, &environment)
    });
    steps.check("soak that kills RabbitMQ 4.0", || {
        SOAK_FAULTS.run(root, filters, &[Installation::four(root)?.variable()])
    });
    say(format_args!("\n{}", steps.summary()));
    steps.outcome()
}

/// Their names begin with `soak_`.
const SOAK: Suite = Suite {
    name: "soak",
    arguments: &[
        "test",
        "--workspace",
        "--tests",
        "--no-fail-fast",
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ],
};

/// Those of them that kill brokers, for another version of RabbitMQ.
const SOAK_FAULTS: Suite = Suite {
    name: "soak that kills RabbitMQ",
    arguments: &[
        "test",
        "--workspace",
        "--test=faults",
        "--no-fail-fast",
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ],
};

#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    fn available(root: &Path) -> Self {
        let nextest = succeeds(cargo(root).args(["nextest", "--version"]));
        if nextest { Self::Nextest } else { Self::Cargo }
    }
}

/// A call of cargo that runs tests.
struct Suite {
    name: &'static str,
    arguments: &'static [&'static str],
}

impl Suite {
    /// Filters are passed after `--`, where all runners accept more than one.
    fn run(
        &self,
        root: &Path,
        filters: &[String],
        environment: &[(&'static str, String)],
    ) -> Result<()> {
        let mut command = cargo(root);
        command.args(self.arguments).envs(environment.iter().cloned());
        if !filters.is_empty() {
            if self.arguments.contains(&"nextest") {
                command.arg("--no-tests=pass"); // the filters may match only tests of another suite
            }
            let dashes = (!self.arguments.contains(&"--")).then_some("--");
            command.args(dashes).args(filters);
        }
        run_command(&mut command)
    }
}

/// The ignored tests of the targets that need a broker; other targets have tests that are ignored for other reasons.
/// Built as part of the whole workspace, because for single packages the dependencies would have other features and be
/// built again.
fn rabbitmq_suite(runner: Runner) -> Suite {
    let arguments: &[&str] = match runner {
        // They spend most of their time waiting: for delays, and for the broker.
        Runner::Nextest => {
            with_broker![
                "nextest",
                "run",
                "--run-ignored=only",
                "--no-fail-fast",
                "--test-threads=4",
                "-E",
                "not test(soak_)";
            ]
        }
        Runner::Cargo => with_broker!["test", "--no-fail-fast"; "--", "--ignored", "--skip=soak_"],
    };
    Suite { name: "tests with RabbitMQ", arguments }
}

/// Tests that start a broker and kill it. One at a time: several brokers would slow each other down.
const FAULTS: Suite = Suite {
    name: "tests that kill RabbitMQ",
    arguments: &[
        "test",
        "--workspace",
        "--no-fail-fast",
        "--test=faults",
        "--",
        "--ignored",
        "--skip=soak_",
        "--test-threads=1",
    ],
};

/// Tests with a PostgreSQL server that they share, and those that start one of their own and kill it.
fn postgres_suite(runner: Runner) -> Suite {
    let arguments: &[&str] = match runner {
        // They spend most of their time waiting for delays and leases.
        Runner::Nextest => with_postgres![
            "nextest",
            "run",
            "--run-ignored=only",
            "--no-fail-fast",
            "--test-threads=8",
            "-E",
            "not test(soak_)";
        ],
        Runner::Cargo => {
            with_postgres!["test", "--no-fail-fast"; "--", "--ignored", "--skip=soak_"]
        }
    };
    Suite { name: "tests with PostgreSQL", arguments }
}

/// Tests that start Azurite. Not with nextest, which would start one for each test.
const AZURE: Suite = Suite {
    name: "tests with Azurite",
    arguments: &[
        "test",
        "--workspace",
        "--no-fail-fast",
        "--test=azurite",
        "--test=azure_conformance",
        "--",
        "--ignored",
        "--skip=soak_",
        "--test-threads=8", // they wait for leases and delays most of the time
    ],
};

/// Tests with a receiver in Python.
const HL7: Suite = Suite {
    name: "tests with another HL7 library",
    arguments: &["test", "--workspace", "--no-fail-fast", "--test=hl7", "--", "--ignored"],
};

/// Tests of the API against its description.
const SCHEMATHESIS: Suite = Suite {
    name: "tests with schemathesis",
    arguments: &[
        "test",
        "--workspace",
        "--no-fail-fast",
        "--test=schemathesis",
        "--",
        "--ignored",
        "--skip=soak_",
    ],
};

macro_rules! with_broker {
    ($($before:literal),*; $($after:literal),*) => {
        &[
            $($before,)*
            "--workspace",
            "--test=conformance",
            "--test=crash",
            "--test=broker",
            "--test=silence",
            "--test=rabbitmq",
            "--test=canary",
            $($after,)*
        ]
    };
}
use with_broker;

macro_rules! with_postgres {
    ($($before:literal),*; $($after:literal),*) => {
        &[$($before,)* "--workspace", "--test=postgres_conformance", "--test=postgres_catalogue_conformance", "--test=postgres", $($after,)*]
    };
}
use with_postgres;

/// Nextest is faster and isolates tests, but runs no doctests: these get a suite of their own.
fn suites(runner: Runner) -> &'static [Suite] {
    match runner {
        Runner::Nextest => &[
            Suite {
                name: "tests",
                arguments: &["nextest", "run", "--workspace", "--no-fail-fast"],
            },
            Suite {
                name: "doctests",
                arguments: &["test", "--workspace", "--doc", "--no-fail-fast"],
            },
        ],
        Runner::Cargo => &[Suite {
            name: "tests and doctests",
            arguments: &["test", "--workspace", "--no-fail-fast"],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runner: Runner, expected: &[&str]) {
        let calls: Vec<_> = suites(runner).iter().map(|suite| suite.arguments.join(" ")).collect();
        assert_eq!(calls, expected);
    }

    #[test]
    fn doctests_run_with_either_runner() {
        let nextest =
            ["nextest run --workspace --no-fail-fast", "test --workspace --doc --no-fail-fast"];
        check(Runner::Nextest, &nextest);
        check(Runner::Cargo, &["test --workspace --no-fail-fast"]);
    }

    #[test]
    fn a_failing_test_never_hides_the_results_of_others() {
        for runner in [Runner::Nextest, Runner::Cargo] {
            let (broker, postgres) = (rabbitmq_suite(runner), postgres_suite(runner));
            let others = [&broker, &postgres, &FAULTS, &SOAK, &SOAK_FAULTS, &HL7];
            for suite in suites(runner).iter().chain(others) {
                assert!(suite.arguments.contains(&"--no-fail-fast"), "{}", suite.name);
            }
        }
    }

    #[test]
    fn tests_that_need_a_server_run_with_either_runner() {
        for runner in [Runner::Nextest, Runner::Cargo] {
            for suite in [rabbitmq_suite(runner), postgres_suite(runner)] {
                let arguments = suite.arguments;
                assert!(arguments.iter().any(|it| it.contains("ignored")), "{arguments:?}");
            }
        }
    }
}

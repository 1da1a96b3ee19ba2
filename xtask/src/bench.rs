//! `cargo xtask bench <name>`: the crate `bench-<name>` in the folder `bench/<name>`.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    dist, install,
    process::{cargo, run as run_command},
    servers::{Installation, RabbitMq, azurite},
};

/// The only benchmark that needs a broker, which runs as long as the benchmark.
const WITH_BROKER: &str = "rabbitmq";
/// The only benchmark that needs Azurite, which it starts itself.
const WITH_AZURITE: &str = "azure";

/// Builds the benchmark for release and runs it with `arguments`.
pub(crate) fn run(root: &Path, name: &str, arguments: &[String]) -> Result<()> {
    ensure_known(name, &known(&root.join("bench"))?)?;
    let (package, release) = (format!("bench-{name}"), dist::target(root)?.join("release"));
    let with_gateway = name == WITH_BROKER && wants_gateway(arguments);
    let mut build = cargo(root);
    build.args(["build", "--release", "--package", &package]);
    if with_gateway {
        // Built together: one after the other they would have other features, and build what they share twice.
        build.args(["--package", "bezoar-cli"]);
    }
    // Built before the broker is started, so that the two do not compete for the machine.
    run_command(&mut build)?;
    let mut command = Command::new(release.join(&package));
    command.current_dir(root).args(arguments);
    if with_gateway {
        command.arg("--gateway").arg(release.join("bezoar"));
    }
    match name {
        WITH_BROKER => {
            install::run()?;
            let broker = RabbitMq::start(root, &Installation::of_this_machine())?;
            run_command(command.envs(broker.environment()))
        }
        WITH_AZURITE => run_command(command.env("BEZOAR_TEST_AZURITE", azurite(root)?)),
        _ => run_command(&mut command),
    }
}

/// The gateway is measured too, unless one is named, or only something else is measured.
fn wants_gateway(arguments: &[String]) -> bool {
    let others = ["--gateway", "--only", "--help"];
    !arguments.iter().any(|it| others.iter().any(|other| it.starts_with(other)))
}

fn ensure_known(name: &str, known: &[String]) -> Result<()> {
    let is_known = known.iter().any(|candidate| candidate == name);
    ensure!(is_known, "no benchmark is called `{name}`; known: {}", listed(known));
    Ok(())
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none yet".to_owned(),
        names => names.join(", "),
    }
}

/// The folders that hold a program, sorted.
fn known(bench: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(bench).with_context(|| format!("cannot list {}", bench.display()))? {
        let entry = entry?;
        if entry.path().join("src/main.rs").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known() {
        let known = ["embedded".to_owned(), "rabbitmq".to_owned()];
        assert!(ensure_known("embedded", &known).is_ok());
        let error = ensure_known("embeded", &known).unwrap_err().to_string();
        assert_eq!(error, "no benchmark is called `embeded`; known: embedded, rabbitmq");
        let error = ensure_known("embedded", &[]).unwrap_err().to_string();
        assert!(error.ends_with("known: none yet"), "{error}");
    }

    #[test]
    fn every_row_is_measured_unless_asked_otherwise() {
        assert!(wants_gateway(&[]));
        assert!(wants_gateway(&["--quick".to_owned()]));
        assert!(!wants_gateway(&["--only".to_owned(), "publish".to_owned()]));
        assert!(!wants_gateway(&["--gateway=target/release/bezoar".to_owned()]));
    }

    #[test]
    fn a_folder_with_a_program_is_a_benchmark() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert!(known(root).unwrap().contains(&"xtask".to_owned()));
        assert!(!known(root).unwrap().contains(&"docs".to_owned()));
    }
}

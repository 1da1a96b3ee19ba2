//! `cargo xtask install`: the programs that building and testing need.

use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::{
    process::{on_path, output, run as run_command},
    say::say,
};

/// A program, and the Debian packages that contain it.
struct Need {
    program: &'static str,
    packages: &'static [&'static str],
    purpose: &'static str,
}

/// Everything beyond the Rust toolchain. A test that starts another program needs an entry here.
const NEEDS: &[Need] = &[
    Need {
        program: "cc",
        packages: &["gcc", "libc6-dev"],
        purpose: "compiles the bundled SQLite and a shim for tests",
    },
    Need {
        program: "sqlite3",
        packages: &["sqlite3"],
        purpose: "reads our database in tests, as other programs would",
    },
    Need {
        program: "rabbitmq-server",
        packages: &["rabbitmq-server"],
        purpose: "is the broker that the tests of transports/rabbitmq start",
    },
    Need {
        program: "openssl",
        packages: &["openssl"],
        purpose: "creates the certificates of the TLS tests",
    },
];

/// Installs missing programs, or fails with a list of them if it is not allowed to install.
pub(crate) fn run() -> Result<()> {
    let lacking = missing(NEEDS, on_path);
    if lacking.is_empty() {
        say("nothing is missing");
        return Ok(());
    }
    ensure!(may_install(), "{}", advice(&lacking));
    apt_install(&packages_of(&lacking))?;
    match missing(NEEDS, on_path).as_slice() {
        [] => Ok(()),
        still => bail!("installed, but still not on the PATH: {}", programs(still)),
    }
}

fn missing(needs: &'static [Need], present: impl Fn(&str) -> bool) -> Vec<&'static Need> {
    needs.iter().filter(|need| !present(need.program)).collect()
}

/// Installs a program that only some tests need, unless it is on the PATH.
pub(crate) fn ensure_program(program: &str, package: &str) -> Result<()> {
    if on_path(program) {
        return Ok(());
    }
    packages(&[package])
}

/// Installs packages that only some tests need.
pub(crate) fn packages(names: &[&str]) -> Result<()> {
    let names_shown = names.join(", ");
    ensure!(may_install(), "{names_shown} is missing, and installing needs root and apt-get");
    apt_install(names)
}

fn may_install() -> bool {
    on_path("apt-get") && is_root()
}

pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn apt_install(packages: &[&str]) -> Result<()> {
    run_command(Command::new("apt-get").args(["update", "--quiet"]))?;
    run_command(
        Command::new("apt-get")
            .args(["install", "--quiet", "--yes", "--no-install-recommends"])
            .args(packages)
            // Without it a package may stop and ask, for example, about time zones.
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

fn advice(missing: &[&Need]) -> String {
    let lines: String =
        missing.iter().map(|need| format!("\n  {}: {}", need.program, need.purpose)).collect();
    format!(
        "programs are missing, and installing needs root and apt-get:{lines}\non Debian: \
         sudo apt-get install --no-install-recommends {}",
        packages_of(missing).join(" ")
    )
}

fn packages_of(needs: &[&Need]) -> Vec<&'static str> {
    needs.iter().flat_map(|need| need.packages).copied().collect()
}

fn programs(needs: &[&Need]) -> String {
    needs.iter().map(|need| need.program).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_absent_is_installed() {
        let lacking = missing(NEEDS, |program| program != "sqlite3");
        assert_eq!(programs(&lacking), "sqlite3");
        assert_eq!(packages_of(&lacking), ["sqlite3"]);
        assert!(missing(NEEDS, |_| true).is_empty());
    }

    #[test]
    fn the_advice_names_program_purpose_and_command() {
        let advice = advice(&missing(NEEDS, |_| false));
        assert!(advice.contains("\n  cc: compiles the bundled SQLite"), "{advice}");
        assert!(
            advice
                .ends_with("--no-install-recommends gcc libc6-dev sqlite3 rabbitmq-server openssl"),
            "{advice}"
        );
    }
}

//! Starting other programs.

use std::{
    env,
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::say::say;

/// The cargo that started this program, so that a task uses the same toolchain; runs in `root`.
///
/// `cargo run` sets variables that describe xtask's own package. Some build scripts (that of `ring`) are run again if they
/// change, and everything above them is rebuilt, so cargo gets the environment that it has when called by hand.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(describes_this_package) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_this_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
        .iter()
        .any(|start| variable.starts_with(start))
}

/// Prints a command and runs it on this terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    say(format_args!("$ {line}"));
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "`{line}` ended with {status}");
    Ok(())
}

/// Runs a command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    ensure!(output.status.success(), "`{line}` ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not print UTF-8"))
}

/// Runs a command only to learn whether it works.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether a program of that name can be started.
pub(crate) fn on_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| is_in(program, &path))
}

fn is_in(program: &str, path: &OsStr) -> bool {
    env::split_paths(path).any(|folder| folder.join(program).is_file())
}

/// The command without folders and environment, as a person would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_only_where_it_is() {
        let program = env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        let folder = program.parent().unwrap();
        assert!(is_in(name, folder.as_os_str()));
        assert!(!is_in(name, folder.join("elsewhere").as_os_str()));
    }

    #[test]
    fn cargo_does_not_inherit_what_describes_this_package() {
        let removed =
            |name| cargo(Path::new(".")).get_envs().any(|entry| entry == (OsStr::new(name), None));
        assert!(removed("CARGO_PKG_VERSION"));
        assert!(removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO_HOME"));
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = run(Command::new("false").arg("alarm")).unwrap_err();
        assert!(error.to_string().starts_with("`false alarm` ended with"), "{error}");
        assert!(!succeeds(&mut Command::new("false")));
        assert!(succeeds(&mut Command::new("true")));
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        assert_eq!(
            shown(Command::new("/usr/bin/cargo").args(["test", "--doc"])),
            "cargo test --doc"
        );
    }
}

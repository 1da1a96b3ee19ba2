//! Dependencies point inward: towards core, and away from concrete transports.

use super::{
    problem::Problem,
    workspace::{Dependency, Kind, Member, Workspace},
};

const CORE: &str = "bezoar-core";

/// The only crates that choose a transport: the facade's driver list and the gateway's wiring.
const WIRING: &[&str] = &["bezoar", "bezoar-gateway"];

/// Dependencies that point outward.
pub(crate) fn problems(workspace: &Workspace) -> Vec<Problem> {
    workspace.members.iter().flat_map(problems_of).collect()
}

fn problems_of(member: &Member) -> impl Iterator<Item = Problem> {
    member.dependencies.iter().filter_map(|dependency| {
        let remedy = objection(member, dependency)?;
        let what = format!("{} depends on {}", member.name, dependency.name);
        Some(Problem::new(member.manifest(), what, remedy))
    })
}

/// Why `member` must not have this dependency, worded as what to do instead.
fn objection(member: &Member, dependency: &Dependency) -> Option<&'static str> {
    if member.name == CORE {
        return Some(
            "core stands alone, in tests too: move what needs the other crate out of core",
        );
    }
    if dependency.kind == Kind::Dev {
        return None;
    }
    if is_transport(&member.folder) && dependency.name != CORE {
        return Some("transports know only bezoar-core: move what they share into core");
    }
    if is_transport(&dependency.folder) && !WIRING.contains(&member.name.as_str()) {
        return Some("only bezoar and bezoar-gateway name a transport: take a `dyn Transport`");
    }
    None
}

fn is_transport(folder: &str) -> bool {
    folder.starts_with("transports/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, folder: &str, dependency: &str, expected: Option<&str>) {
        let workspace = Workspace { members: vec![Member::new(name, folder, &[dependency])] };
        let found = problems(&workspace);
        match expected {
            None => assert_eq!(found, []),
            Some(part) => {
                let [problem] = found.as_slice() else { panic!("{found:?}") };
                let line = problem.to_string();
                assert!(
                    line.starts_with(&format!("{folder}/Cargo.toml: {name} depends")),
                    "{line}"
                );
                assert!(line.contains(part), "{line}");
            }
        }
    }

    #[test]
    fn core_stands_alone_even_in_tests() {
        let expected = Some("core stands alone");
        check("bezoar-core", "crates/core", "bezoar-runtime crates/runtime", expected);
        check("bezoar-core", "crates/core", "bezoar-memory transports/memory dev", expected);
    }

    #[test]
    fn transports_know_only_core() {
        let expected = Some("transports know only bezoar-core");
        let (name, folder) = ("bezoar-sqlite", "transports/sqlite");
        check(name, folder, "bezoar-core crates/core", None);
        check(name, folder, "bezoar-memory transports/memory dev", None);
        check(name, folder, "bezoar-memory transports/memory", expected);
        check(name, folder, "bezoar-runtime crates/runtime", expected);
    }

    #[test]
    fn only_the_wiring_names_a_transport() {
        let sqlite = "bezoar-sqlite transports/sqlite";
        check("bezoar", "crates/bezoar", sqlite, None);
        check("bezoar-gateway", "apps/gateway", sqlite, None);
        check("bezoar-runtime", "crates/runtime", "bezoar-sqlite transports/sqlite dev", None);
        for (name, folder) in [
            ("bezoar-runtime", "crates/runtime"),
            ("bezoar-ops", "crates/ops"),
            ("bezoar-conformance", "crates/conformance"),
            ("bezoar-cli", "apps/cli"),
        ] {
            check(name, folder, sqlite, Some("only bezoar and bezoar-gateway name a transport"));
        }
    }
}

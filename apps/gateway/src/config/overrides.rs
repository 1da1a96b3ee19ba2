//! Overrides from environment variables and flags.

use super::{
    ConfigProblem, InvalidValue, Origin, keys,
    path::{Path, Step},
};

/// A value for a key, as text.
pub(super) struct Assignment {
    pub(super) path: Path,
    pub(super) text: String,
    pub(super) origin: Origin,
}

const PREFIX: &str = "BEZOAR_";
/// Variables for clients of a gateway.
const CLIENT: [&str; 2] = ["BEZOAR_URL", "BEZOAR_TOKEN"];

/// The values of `BEZOAR_…__…` variables, sorted by key. Empty ones are ignored. Other variables with the prefix are not
/// ours (an orchestrator may add some); those that look like a typo give a warning.
pub(super) fn environment(variables: &[(String, String)]) -> (Vec<Assignment>, Vec<ConfigProblem>) {
    let (mut assignments, mut warnings) = (Vec::new(), Vec::new());
    for (name, text) in variables.iter().filter(|(_, text)| !text.is_empty()) {
        match name.strip_prefix(PREFIX) {
            Some(rest) if rest.contains("__") => assignments.push(Assignment {
                path: path(rest),
                text: text.clone(),
                origin: Origin::Environment(name.clone()),
            }),
            Some(_) if !CLIENT.contains(&name.as_str()) => warnings.extend(typo(name)),
            _ => (),
        }
    }
    assignments.sort_by(|one, other| one.path.cmp(&other.path));
    (assignments, warnings)
}

/// The values of flags; later ones win.
pub(super) fn flags(flags: &[(String, String)]) -> Vec<Assignment> {
    let assignment = |(key, text): &(String, String)| Assignment {
        path: Path::parse(key),
        text: text.clone(),
        origin: Origin::Flag(key.clone()),
    };
    flags.iter().map(assignment).collect()
}

/// The variable that sets a key.
pub(super) fn variable(path: &Path) -> String {
    let steps = path.steps().iter().map(|step| match step {
        Step::Key(key) => key.replace('-', "_").to_uppercase(),
        Step::Index(index) => index.to_string(),
    });
    format!("{PREFIX}{}", steps.collect::<Vec<_>>().join("__"))
}

/// `ROUTE__0__HEADERS__X_TENANT` is `route[0].headers.x-tenant`.
fn path(name: &str) -> Path {
    let mut path = Path::default();
    for part in name.split("__") {
        let part = part.to_lowercase();
        path = match (Step::new(&part), path.pattern() == "route[].headers") {
            (Step::Index(index), false) => path.index(index),
            (_, true) => path.key(&part.replace('_', "-")),
            (_, false) => path.key(&part),
        };
    }
    path
}

/// A warning for a variable that looks like a key with single underscores, or without its table.
fn typo(name: &str) -> Option<ConfigProblem> {
    let squeezed = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphabetic);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let rest = squeezed(name.strip_prefix(PREFIX)?);
    let values = || keys::keys().iter().filter(|key| !keys::is_table(key.path));
    let mut named = values().filter(|key| squeezed(key.name()) == rest);
    let only = named.next().filter(|_| named.next().is_none());
    let key = values().find(|key| squeezed(key.path) == rest).or(only)?;
    let example = variable(&Path::parse(&key.path.replace("[]", "[0]")));
    let invalid = InvalidValue::new("is ignored", format!("did you mean {example}?"));
    Some(ConfigProblem::new(name, Origin::Environment(name.to_owned()), invalid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str]) -> (Vec<String>, Vec<String>) {
        let variables: Vec<_> =
            names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
        let (assignments, warnings) = environment(&variables);
        let paths = assignments.iter().map(|assignment| assignment.path.to_string());
        (paths.collect(), warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn double_underscores_lead_into_tables_and_lists() {
        let names = ["BEZOAR_ROUTE__10__TO", "BEZOAR_ROUTE__2__TO", "BEZOAR_SERVER__MAX_BODY"];
        let (paths, warnings) = read(&names);
        assert_eq!(paths, ["route[2].to", "route[10].to", "server.max_body"]);
        assert!(warnings.is_empty());
        let (paths, _) = read(&["BEZOAR_ROUTE__0__HEADERS__X_TENANT", "BEZOAR_TOKEN__0__NAME"]);
        assert_eq!(paths, ["route[0].headers.x-tenant", "token[0].name"]);
    }

    #[test]
    fn variables_of_others_are_ignored() {
        let others =
            ["PATH", "BEZOAR_URL", "BEZOAR_TOKEN", "BEZOAR_PORT_8420_TCP", "BEZOAR_SERVICE_HOST"];
        assert_eq!(read(&others), (vec![], vec![]));
        let empty = ("BEZOAR_SERVER__LISTEN".to_owned(), String::new());
        assert!(environment(&[empty]).0.is_empty());
    }

    #[test]
    fn a_typo_gives_a_warning() {
        for (name, meant) in [
            ("BEZOAR_SERVER_LISTEN", "BEZOAR_SERVER__LISTEN"),
            ("BEZOAR_LISTEN", "BEZOAR_SERVER__LISTEN"),
            ("BEZOAR_ROUTE_0_TIMEOUT", "BEZOAR_ROUTE__0__TIMEOUT"),
        ] {
            let (paths, warnings) = read(&[name]);
            assert!(paths.is_empty());
            let expected = format!("env {name}: {name} is ignored; did you mean {meant}?");
            assert_eq!(warnings, [expected]);
        }
    }

    #[test]
    fn a_variable_name_survives_the_round_trip() {
        for key in ["server.listen", "route[3].headers.x-tenant", "route[0].retry.first"] {
            let name = variable(&Path::parse(key));
            assert_eq!(read(&[&name]).0, [key]);
        }
    }
}

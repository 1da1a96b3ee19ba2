//! From sources to a configuration, or everything that is wrong with them.

use std::{fmt, path::PathBuf};

use bezoar_core::Severity;

use super::{
    Config, ConfigProblem, ConfigProblems, InvalidValue, Origin, Resolve, Setting,
    contradictions::{self, Contradiction},
    known_keys,
    model::ListPositions,
    overrides,
    reader::{Section, SectionReader},
    toml_file,
    tree::Node,
};

/// What a configuration is made of; later ones win over earlier ones, and all over the defaults.
#[derive(Clone, Default)]
pub struct Sources {
    /// The file: its path, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables, by name: all of them, or those that begin with `BEZOAR_`.
    pub environment: Vec<(String, String)>,
    /// Flags: keys such as `server.listen` or `route[0].to`, and values.
    pub flags: Vec<(String, String)>,
}

/// Names only: texts may hold secrets.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.clone()).collect()
        };
        f.debug_struct("Sources")
            .field("file", &self.file.as_ref().map(|(path, _)| path))
            .field("environment", &names(&self.environment))
            .field("flags", &names(&self.flags))
            .finish()
    }
}

/// A configuration, where each of its values came from, and what is odd about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is odd, and works.
    pub warnings: Vec<ConfigProblem>,
    pub(super) settings: Vec<Setting>,
}

impl Loaded {
    /// Where the value of a key such as `server.listen` or `route[0].to` came from; `None` if it has none.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.origin)
    }
}

/// Reads a configuration. Reads no file, variable or clock itself: secrets that are somewhere else are
/// looked up with `resolve`, which is [`read_secret`](super::read_secret) outside of tests.
///
/// # Errors
///
/// All problems at once, each with its key, where it was set, and what to do. Where the file is no TOML,
/// only what makes it none: nothing else can be told.
pub fn load(sources: &Sources, resolve: &Resolve<'_>) -> Result<Loaded, ConfigProblems> {
    let mut problems = Vec::new();
    let mut root = match &sources.file {
        None => Node::empty_table(Origin::Default),
        Some((path, text)) => match toml_file::parse(path, text) {
            Ok(root) => root,
            Err(errors) => {
                return Err(ConfigProblems::new(errors).expect("there is at least one error"));
            }
        },
    };
    let (variables, mut warnings) = overrides::environment(&sources.environment);
    for assignment in variables.into_iter().chain(overrides::flags(&sources.flags)) {
        let set = root.set(&assignment.path, &assignment.text, &assignment.origin);
        let problem =
            |invalid| ConfigProblem::new(&assignment.path, assignment.origin.clone(), invalid);
        problems.extend(set.err().map(problem));
    }
    known_keys::check(&mut root, &mut problems);
    let mut reader = SectionReader::new(resolve);
    let (config, places) = Config::read(&mut reader, &Section::root(&root));
    let SectionReader { problems: refused, warnings: odd, settings, .. } = reader;
    problems.extend(refused);
    warnings.extend(odd);
    sort_in(&config, &places, &settings, &mut problems, &mut warnings);
    match ConfigProblems::new(problems) {
        Some(problems) => Err(problems),
        None => Ok(Loaded { config, warnings, settings }),
    }
}

/// Adds contradictions to the problems or warnings.
fn sort_in(
    config: &Config,
    places: &ListPositions,
    settings: &[Setting],
    problems: &mut Vec<ConfigProblem>,
    warnings: &mut Vec<ConfigProblem>,
) {
    for Contradiction { place, finding, moot_with } in contradictions::all(config) {
        let moot = |problem: &ConfigProblem| problem.key.starts_with(moot_with);
        if !moot_with.is_empty() && problems.iter().any(moot) {
            continue;
        }
        let key = place.key(places);
        let invalid = InvalidValue::new(finding.problem, finding.remedy);
        let problem = ConfigProblem::new(&key, origin(settings, &key), invalid);
        match finding.severity {
            Severity::Error => problems.push(problem),
            Severity::Warning | Severity::Note => warnings.push(problem),
        }
    }
}

/// Where a key, or something within it, was set.
fn origin(settings: &[Setting], key: &str) -> Origin {
    let within = |setting: &&Setting| {
        let rest = setting.key.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let origins = settings.iter().filter(within).map(|setting| &setting.origin);
    origins.filter(|origin| **origin != Origin::Default).min().cloned().unwrap_or(Origin::Default)
}

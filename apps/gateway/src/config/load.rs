//! Loads a configuration from its sources, or reports everything that is wrong with them.

use std::{fmt, path::PathBuf};

use bezoar_core::Severity;

use super::{
    Config, ConfigProblem, ConfigProblems, InvalidValue, Origin, Resolve, Setting,
    contradictions::{self, Contradiction},
    known_keys, known_transports,
    model::ListPositions,
    overrides,
    reader::{Section, SectionReader},
    sections::mark_kinds,
    toml_file,
    tree::Node,
};

/// The sources of a configuration; later ones override earlier ones, and all override the defaults.
#[derive(Clone, Default)]
pub struct Sources {
    /// The file: its path, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables, by name: all of them, or those that begin with `BEZOAR_`.
    pub environment: Vec<(String, String)>,
    /// Flags: keys such as `server.listen` or `route[0].to`, and values.
    pub flags: Vec<(String, String)>,
}

/// Prints names only: values may be secrets.
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

/// A configuration, the origin of each value, and warnings.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings: values that work but are unwise.
    pub warnings: Vec<ConfigProblem>,
    pub(super) settings: Vec<Setting>,
}

impl Loaded {
    /// The origin of a key such as `server.listen` or `route[0].to`; `None` if it has no value.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.origin)
    }
}

/// Loads a configuration. It reads no file, variable or clock itself: referenced secrets are looked up with
/// `resolve`, which is [`read_secret`](super::read_secret) outside of tests.
///
/// # Errors
///
/// All problems at once, each with its key, its origin and a remedy. If the file is not valid TOML, only the syntax
/// errors.
pub fn load(sources: &Sources, resolve: &Resolve<'_>) -> Result<Loaded, ConfigProblems> {
    let (loaded, problems) = read(sources, resolve);
    ConfigProblems::new(problems).map_or(Ok(loaded), Err)
}

/// Loads a configuration to find the gateway that runs with it, and looks up no secret. Only `[server]` and `[store]` are
/// certain to be as configured.
///
/// # Errors
///
/// What is wrong with the syntax, or with `[server]` or `[store]`.
pub fn load_to_find_gateway(sources: &Sources) -> Result<Config, ConfigProblems> {
    let (loaded, problems) = read(sources, &|_| Err("is not looked up here".to_owned()));
    let matters = |problem: &ConfigProblem| {
        let section = problem.key.split('.').next().unwrap_or_default();
        matches!(section, "" | "server" | "store")
    };
    let problems = problems.into_iter().filter(matters).collect();
    ConfigProblems::new(problems).map_or(Ok(loaded.config), Err)
}

/// The configuration with defaults for whatever is invalid, and everything that is wrong with it.
fn read(sources: &Sources, resolve: &Resolve<'_>) -> (Loaded, Vec<ConfigProblem>) {
    let empty = || Node::empty_table(Origin::Default);
    let file = sources.file.as_ref().map(|(path, text)| toml_file::parse(path, text));
    let (mut root, syntax_errors) = match file.transpose() {
        Ok(root) => (root.unwrap_or_else(empty), Vec::new()),
        Err(errors) => (empty(), errors),
    };
    let mut problems = Vec::new();
    let (variables, mut warnings) = overrides::environment(&sources.environment);
    for assignment in variables.into_iter().chain(overrides::flags(&sources.flags)) {
        let set = root.set(&assignment.path, &assignment.text, &assignment.origin);
        let problem =
            |invalid| ConfigProblem::new(&assignment.path, assignment.origin.clone(), invalid);
        problems.extend(set.err().map(problem));
    }
    mark_kinds(&mut root, resolve);
    known_keys::check(&mut root, &mut problems);
    known_transports::check(&Section::root(&root), &mut problems);
    let mut reader = SectionReader::new(resolve);
    let (config, places) = Config::read(&mut reader, &Section::root(&root));
    let SectionReader { problems: refused, warnings: odd, settings, .. } = reader;
    problems.extend(refused);
    warnings.extend(odd);
    sort_in(&config, &places, &settings, &mut problems, &mut warnings);
    // Without the file, everything else would only say what is missing.
    let problems = if syntax_errors.is_empty() { problems } else { syntax_errors };
    (Loaded { config, warnings, settings }, problems)
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
            Severity::Warning | Severity::Note => warnings.push(problem),
            _ => problems.push(problem), // an unknown severity is taken for the worst
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

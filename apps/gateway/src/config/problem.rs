//! Problems in a configuration.

use std::{error::Error, fmt};

use serde::Serialize;

use super::{InvalidValue, Origin};

/// A problem: its key, its origin, what is wrong, and a remedy. Never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    /// The key: `route[0].timeout`; empty for invalid TOML.
    pub key: String,
    /// Where it was set.
    pub origin: Origin,
    /// What is wrong, worded to follow the key.
    pub problem: String,
    /// What to do.
    pub remedy: String,
    /// For invalid TOML the line with a caret. Secrets are masked.
    pub excerpt: Option<String>,
}

impl ConfigProblem {
    pub(super) fn new(key: impl fmt::Display, origin: Origin, invalid: InvalidValue) -> Self {
        let InvalidValue { problem, remedy } = invalid;
        Self { key: key.to_string(), origin, problem, remedy, excerpt: None }
    }
}

/// `bezoar.toml:12:11: route[0].timeout is "30", which has no unit; use "30s"`, followed by the excerpt on separate
/// lines, if there is one.
impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin.position())?;
        if !self.key.is_empty() {
            write!(f, "{} ", self.key)?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)?;
        let excerpt = self.excerpt.iter().flat_map(|excerpt| excerpt.lines());
        excerpt.into_iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// All problems of a configuration, at least one, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigProblems(Vec<ConfigProblem>);

impl ConfigProblems {
    /// `None` if there are none.
    pub(super) fn new(mut problems: Vec<ConfigProblem>) -> Option<Self> {
        problems.sort_by(|one, other| one.origin.cmp(&other.origin));
        problems.dedup();
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// The problems, at least one.
    pub fn list(&self) -> &[ConfigProblem] {
        &self.0
    }
}

impl Error for ConfigProblems {}

/// The number of problems, then one on each line.
impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "1 problem in the configuration:")?,
            count => write!(f, "{count} problems in the configuration:")?,
        }
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn problem(key: &str, line: usize) -> ConfigProblem {
        let origin = Origin::File { path: Path::new("b.toml").into(), line, column: 5 };
        ConfigProblem::new(key, origin, InvalidValue::new("is odd", "make it even"))
    }

    #[test]
    fn problems_are_listed_one_per_line_after_their_number() {
        let problems = ConfigProblems::new(vec![problem("b", 2), problem("a", 1)]).unwrap();
        assert_eq!(
            problems.to_string(),
            "2 problems in the configuration:\n  \
             b.toml:1:5: a is odd; make it even\n  \
             b.toml:2:5: b is odd; make it even"
        );
        let one = ConfigProblems::new(vec![problem("a", 1)]).unwrap();
        assert!(one.to_string().starts_with("1 problem in"));
        assert_eq!(ConfigProblems::new(vec![]), None);
    }

    #[test]
    fn an_excerpt_is_indented_under_its_problem() {
        let mut problem = problem("", 1);
        problem.excerpt = Some("1 | a =\n  |    ^".to_owned());
        assert_eq!(
            problem.to_string(),
            "b.toml:1:5: is odd; make it even\n    1 | a =\n      |    ^"
        );
    }
}

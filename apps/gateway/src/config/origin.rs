//! Where a value came from.

use std::{fmt, path::Path, sync::Arc};

use serde::{Serialize, Serializer};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The default: it was not set.
    Default,
    /// The file.
    File {
        /// The path of the file.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// The environment variable of this name.
    Environment(String),
    /// The flag that sets this key.
    Flag(String),
}

impl Origin {
    /// The exact position for error messages, including the column.
    pub fn position(&self) -> String {
        match self {
            Self::File { column, .. } => format!("{self}:{column}"),
            _ => self.to_string(),
        }
    }
}

/// `default`, `bezoar.toml:12`, `env BEZOAR_SERVER__LISTEN`, `flag server.listen`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::Flag(key) => write!(f, "flag {key}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_name_their_position() {
        let file = Origin::File { path: Path::new("b.toml").into(), line: 3, column: 7 };
        assert_eq!(file.to_string(), "b.toml:3");
        assert_eq!(file.position(), "b.toml:3:7");
        assert_eq!(Origin::Default.to_string(), "default");
        assert_eq!(Origin::Environment("BEZOAR_A__B".to_owned()).position(), "env BEZOAR_A__B");
        assert_eq!(Origin::Flag("a.b".to_owned()).position(), "flag a.b");
    }

    #[test]
    fn the_file_comes_first_and_in_its_order() {
        let line = |line| Origin::File { path: Path::new("b.toml").into(), line, column: 1 };
        assert!(line(2) < line(10) && line(10) < Origin::Environment(String::new()));
    }
}

//! Options of a database: its path, its limits and how it waits.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bezoar_core::{Clock, Invalid, SystemClock};

/// Options of a database: its path, its limits and how it waits.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the database file. A missing file is created, readable by its owner only; its folder must exist.
    pub path: PathBuf,
    /// Largest body that is accepted, in bytes.
    pub max_message_bytes: usize,
    /// How large the database may grow before messages are refused; without a limit if `None`. Accepted
    /// messages can always be handled. A log that a reader keeps from being checkpointed counts too.
    pub max_bytes: Option<u64>,
    /// How large the write-ahead log may grow while a long read transaction keeps it from being checkpointed,
    /// before messages are refused.
    pub max_log_bytes: u64,
    /// How long to wait while another process writes; at most a day.
    pub busy_timeout: Duration,
    /// How often to poll for messages of other processes; messages of this process wake receivers at once. Not 0.
    pub poll: Duration,
    /// What a commit waits for.
    pub synchronous: Synchronous,
    /// The clock to use.
    pub clock: Arc<dyn Clock>,
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// The disk: accepted messages survive a power loss.
    Full,
    /// The operating system: accepted messages survive a crash of the process, but not always a power loss.
    Normal,
}

impl Options {
    /// The largest body that can be configured: 512 MiB, half of SQLite's limit for a row.
    const MAX_MESSAGE_LIMIT_BYTES: usize = 512 * 1024 * 1024;

    /// One day. SQLite counts milliseconds in 32 bits, which is at most 24 days.
    const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

    /// The file at `path` with the defaults: bodies up to 16 MiB, a busy timeout of 5 s, one poll a second, durable
    /// commits.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            max_message_bytes: 16 * 1024 * 1024,
            max_bytes: None,
            max_log_bytes: 1024 * 1024 * 1024,
            busy_timeout: Duration::from_secs(5),
            poll: Duration::from_secs(1),
            synchronous: Synchronous::Full,
            clock: Arc::new(SystemClock),
        }
    }

    /// Parses `sqlite:PATH`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it has another scheme or names no file.
    pub fn from_url(url: &str) -> Result<Self, Invalid> {
        let path = url.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path));
        match path {
            Some(path) if !path.is_empty() && path != ":memory:" => Ok(Self::new(path)),
            _ => Err(Invalid::new("url", "is not sqlite:PATH, for example sqlite:lab.db")),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.max_message_bytes > Self::MAX_MESSAGE_LIMIT_BYTES {
            let problem = format!("is above {}", Self::MAX_MESSAGE_LIMIT_BYTES);
            return Err(Invalid::new("max_message_bytes", problem));
        }
        if self.poll.is_zero() {
            return Err(Invalid::new(
                "poll",
                "is 0; polling without a pause would use a whole processor",
            ));
        }
        if self.busy_timeout > Self::MAX_BUSY_TIMEOUT {
            let problem = format!("is above {} s", Self::MAX_BUSY_TIMEOUT.as_secs());
            return Err(Invalid::new("busy_timeout", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file() {
        let path = |url| Options::from_url(url).map(|options| options.path);
        assert_eq!(path("sqlite:lab.db").unwrap(), PathBuf::from("lab.db"));
        assert_eq!(path("sqlite:///var/lab.db").unwrap(), PathBuf::from("/var/lab.db"));
        for bad in ["sqlite:", "sqlite::memory:", "postgres://x", "lab.db"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        let good = || Options::new("lab.db");
        assert!(good().check().is_ok());
        for (options, field) in [
            (Options { max_message_bytes: usize::MAX, ..good() }, "max_message_bytes"),
            (Options { poll: Duration::ZERO, ..good() }, "poll"),
            (Options { busy_timeout: Duration::MAX, ..good() }, "busy_timeout"),
        ] {
            let refused = options.check().unwrap_err();
            assert!(refused.to_string().contains(field), "{refused}");
        }
    }
}

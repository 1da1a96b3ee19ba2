//! How many files, and so connections, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The current limit.
pub(super) fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Raises the limit of open files to what the system allows: by default it is 1,024 on most systems, and every
/// connection counts.
pub fn raise_open_file_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If it is refused the old limit stays, and there are fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

//! Sensitive values in requests and answers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A body, header value or error text. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden<T>(T);

impl<T> Hidden<T> {
    /// The value.
    pub fn reveal(&self) -> &T {
        &self.0
    }

    /// The value.
    pub fn into_revealed(self) -> T {
        self.0
    }
}

impl<T> From<T> for Hidden<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

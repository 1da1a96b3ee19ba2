//! Lists are returned page by page.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The rows of this page.
    pub items: Vec<T>,
    /// The cursor of the next page, to pass as `after`; null if this is the last page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page that may be followed by another one, as it has as many rows as were asked for. `cursor` is the cursor
    /// after the last row.
    pub(crate) fn new(items: Vec<T>, limit: u32, cursor: Option<String>) -> Self {
        let next = cursor.filter(|_| items.len() >= limit as usize);
        Self { items, next }
    }

    /// A list that is never split.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

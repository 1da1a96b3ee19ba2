//! Dead letters: how they arrive, how they are found, and how single ones are changed.

pub(crate) mod arrival;
pub(crate) mod edit;
pub(crate) mod expire;
pub(crate) mod filter;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod record;

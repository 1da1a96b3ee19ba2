//! Publishing with confirms.

pub(crate) mod publisher;
mod returned_messages;

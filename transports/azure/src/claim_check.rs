//! The claim check: large bodies are stored as blobs, and their messages carry a reference.
//!
//! A blob is stored before its message, and deleted after it. So a crash may leave a blob without a message, an orphan,
//! but never a message without its body. A blob whose message becomes a dead letter is marked first, and is deleted when
//! the letter is removed.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Code, Invalid, Reason};
use bytes::Bytes;

use crate::{
    connection::blob_container::BlobContainer,
    error::{Fault, FaultKind},
    wire::blob_reference::{self, BlobReference},
};

/// Where large bodies are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCheck {
    /// The blob container. `provision` creates it.
    pub container: String,
    /// The largest accepted body. Default 16 MiB.
    pub max_bytes: usize,
}

impl Default for ClaimCheck {
    fn default() -> Self {
        Self { container: "bezoar-bodies".to_owned(), max_bytes: 16 * 1024 * 1024 }
    }
}

impl ClaimCheck {
    /// What is wrong with it.
    pub(crate) fn problems(&self) -> Vec<Invalid> {
        /// The largest blob that one request can store.
        const LARGEST: usize = 5_000 * 1024 * 1024;
        let mut problems = Vec::new();
        // Containers follow the same rule as queues.
        let name = bezoar_core::QueueName::new(&self.container);
        if name.is_err() || name.is_ok_and(|it| crate::connection::queue_name::check(&it).is_err())
        {
            let rule = "must have 3 to 63 lowercase letters, digits and single hyphens, and begin and end with a letter or digit";
            problems.push(Invalid::new("claim_check.container", rule));
        }
        if self.max_bytes == 0 || self.max_bytes > LARGEST {
            let problem = format!("is {}, it must be 1 to {LARGEST}", self.max_bytes);
            problems.push(Invalid::new("claim_check.max_bytes", problem));
        }
        problems
    }
}

/// The bodies in a blob container.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    pub(crate) container: Arc<BlobContainer>,
    /// Whether to create the container if it is missing.
    pub(crate) create_if_missing: bool,
}

/// Why a body cannot be fetched. `Debug` shows no payload.
#[derive(Debug)]
pub(crate) enum NoBody {
    /// It never can be, for this reason.
    Gone(Reason),
    /// Not now.
    Unavailable(Fault),
    /// The bodies fetched with it fill the memory that may be used.
    NoRoom,
}

impl Bodies {
    /// Stores a body under the name of its reference.
    pub(crate) async fn store(&self, to: &BlobReference, body: &Bytes) -> Result<(), Fault> {
        let put = || self.container.put(&to.name, body.clone());
        match put().await {
            Err(Fault { kind: FaultKind::ContainerNotFound, .. }) if self.create_if_missing => {
                self.container.create().await?;
                put().await
            }
            stored => stored,
        }
    }

    pub(crate) async fn fetch(&self, reference: &BlobReference) -> Result<Bytes, NoBody> {
        let gone = |code, text| NoBody::Gone(Reason::new(code, text));
        match self.container.get(&reference.name).await {
            Ok(body) if reference.matches(&body) => Ok(body),
            Ok(_) => Err(gone(Reason::DAMAGED, "its body in Blob Storage was altered")),
            Err(Fault { kind: FaultKind::BlobNotFound, .. }) => {
                Err(gone(MISSING, "its body is missing in Blob Storage"))
            }
            Err(fault) => Err(NoBody::Unavailable(fault)),
        }
    }

    /// Marks the body of a message that becomes a dead letter, so that it is no orphan however old it is. A missing body
    /// needs no mark.
    pub(crate) async fn keep(&self, text: &str) -> Result<(), Fault> {
        let Some(reference) = blob_reference::find(text) else { return Ok(()) };
        match self.container.mark_dead(&reference.name).await {
            Err(fault) if fault.kind != FaultKind::BlobNotFound => Err(fault),
            _ => Ok(()),
        }
    }

    /// Deletes a body whose message is gone. If that fails, it becomes an orphan.
    pub(crate) async fn forget(&self, reference: &BlobReference) {
        let _ = self.container.delete(&reference.name).await;
    }

    /// Deletes bodies that are older than `age` and do not belong to a dead letter; returns how many.
    pub(crate) async fn remove_orphans(&self, age: Duration) -> Result<u64, Fault> {
        let mut removed = 0;
        for name in self.container.live_older_than(age).await? {
            match self.container.delete(&name).await {
                Err(fault) if fault.kind != FaultKind::BlobNotFound => return Err(fault),
                Err(_) => (),
                Ok(()) => removed += 1,
            }
        }
        Ok(removed)
    }
}

const MISSING: Code = Code::from_static("body-missing");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_check_is_checked() {
        assert_eq!(ClaimCheck::default().problems(), []);
        let wrong = ClaimCheck { container: "No".to_owned(), max_bytes: 0 };
        assert_eq!(wrong.problems().len(), 2);
    }
}

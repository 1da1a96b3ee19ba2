//! The claim check: large bodies are stored as blobs, and their messages carry a reference.
//!
//! A blob is stored before its message, and deleted after it. So a crash may leave a blob without a message, an orphan,
//! but never a message without its body. A blob whose message becomes a dead letter is marked first, with the name of the
//! poison queue, and is deleted when the letter is removed.
//!
//! Azure cannot tell whether a message still exists, so orphans are found by their age. A marked blob is an orphan only
//! if its poison queue is empty as well. A mark changes the blob's version, and an orphan is deleted only in the version
//! that was listed: a message that is dead-lettered meanwhile keeps its body.

use std::sync::Arc;

use bezoar_core::{Code, Invalid, QueueName, Reason};
use bytes::Bytes;

use crate::{
    connection::blob_container::{BlobContainer, BlobStorage},
    error::{Fault, FaultKind},
    wire::blob_reference::{self, BlobReference},
};

/// Where large bodies are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCheck {
    /// The blob container that bodies are stored in. `provision` creates it. Messages name the container of their
    /// body, so receivers may use another one.
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
        if !blob_reference::is_container(&self.container) {
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

/// The bodies in Blob Storage.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    storage: BlobStorage,
    /// Where new bodies are stored.
    container: Arc<str>,
    /// Whether to create the container if it is missing.
    create_if_missing: bool,
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
    pub(crate) fn new(storage: BlobStorage, container: String, create_if_missing: bool) -> Self {
        Self { storage, container: container.into(), create_if_missing }
    }

    /// The container that new bodies are stored in.
    pub(crate) fn own_container(&self) -> BlobContainer {
        self.storage.container(&self.container)
    }

    fn container_of(&self, reference: &BlobReference) -> BlobContainer {
        self.storage.container(reference.container.as_deref().unwrap_or(&self.container))
    }

    /// A reference to a body that is to be stored.
    pub(crate) fn refer_to(&self, body: &Bytes) -> BlobReference {
        BlobReference::new(&self.container, body)
    }

    /// Stores a body under the name of its reference.
    pub(crate) async fn store(&self, to: &BlobReference, body: &Bytes) -> Result<(), Fault> {
        let container = self.container_of(to);
        let put = || container.put(&to.name, body.clone());
        match put().await {
            Err(Fault { kind: FaultKind::ContainerNotFound, .. }) if self.create_if_missing => {
                container.create().await?;
                put().await
            }
            stored => stored,
        }
    }

    pub(crate) async fn fetch(&self, reference: &BlobReference) -> Result<Bytes, NoBody> {
        let gone = |code, text| NoBody::Gone(Reason::new(code, text));
        match self.container_of(reference).get(&reference.name).await {
            Ok(body) if reference.matches(&body) => Ok(body),
            Ok(_) => Err(gone(Reason::DAMAGED, "its body in Blob Storage was altered")),
            Err(Fault { kind: FaultKind::BlobNotFound | FaultKind::ContainerNotFound, .. }) => {
                Err(gone(MISSING, "its body is missing in Blob Storage"))
            }
            Err(fault) => Err(NoBody::Unavailable(fault)),
        }
    }

    /// Marks the body of a message that becomes a dead letter in this queue, so that it is no orphan however old it is. A
    /// missing body needs no mark.
    pub(crate) async fn keep(&self, text: &str, poison_queue: &QueueName) -> Result<(), Fault> {
        let Some(body) = blob_reference::find_in_any_version(text) else { return Ok(()) };
        let marked = self.container_of(&body).mark_dead(&body.name, poison_queue.as_str()).await;
        match marked {
            Err(Fault { kind: FaultKind::BlobNotFound | FaultKind::ContainerNotFound, .. }) => {
                Ok(())
            }
            marked => marked,
        }
    }

    /// Deletes a body whose message is gone. If that fails, it becomes an orphan.
    pub(crate) async fn forget(&self, reference: &BlobReference) {
        let _ = self.container_of(reference).delete(&reference.name).await;
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

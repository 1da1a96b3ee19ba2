//! Bodies in Blob Storage that belong to no message any more.

use std::{collections::HashMap, time::Duration};

use bezoar_core::{ErrorKind, QueueName, TransportError};
use jiff::Timestamp;

use crate::{
    AzureTransport,
    connection::{
        blob_container::{BlobContainer, ListedBlob},
        queue_name,
    },
    error::{Fault, FaultKind, error},
    in_parallel::in_parallel,
    transport::TransportState,
};

impl AzureTransport {
    /// Deletes bodies in Blob Storage that no message refers to, because a process died between storing or deleting a
    /// message and its body, or because somebody else removed the message. Returns how many were deleted.
    ///
    /// Azure cannot tell whether a message still exists. Every body in the container of
    /// [`Options::claim_check`](crate::Options::claim_check) that was stored longer ago than `age` is deleted: choose an
    /// age that no message ever waits for. The body of a dead letter is deleted only if it became one longer ago than
    /// `age`, and its poison queue is empty or gone.
    ///
    /// # Errors
    ///
    /// The first error of Azure. What was deleted before is gone.
    pub async fn remove_orphans(&self, age: Duration) -> Result<u64, TransportError> {
        let no_blobs = || error(ErrorKind::Unsupported("bodies in Blob Storage"), "remove_orphans");
        let bodies = self.inner.service.bodies.as_ref().ok_or_else(no_blobs)?;
        let before = self.inner.options.clock.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let removed = self.inner.remove_orphans(&bodies.own_container(), before).await;
        removed.map_err(|fault| fault.of_account("remove_orphans"))
    }
}

impl TransportState {
    async fn remove_orphans(
        &self,
        container: &BlobContainer,
        before: Timestamp,
    ) -> Result<u64, Fault> {
        let (mut removed, mut marker) = (0, String::new());
        let mut poison_queues = PoisonQueues { state: self, have_letters: HashMap::new() };
        loop {
            let (blobs, next) = container.list(&marker).await?;
            let mut orphans = Vec::new();
            for blob in blobs.into_iter().filter(|it| is_old(it, before)) {
                if !poison_queues.may_need(&blob).await? {
                    orphans.push(blob);
                }
            }
            let deletions = orphans.iter().map(|blob| container.delete_unchanged(blob)).collect();
            for deleted in in_parallel(deletions, self.options.limits.publish_concurrency).await {
                removed += u64::from(deleted?);
            }
            if next.is_empty() {
                return Ok(removed);
            }
            marker = next;
        }
    }
}

fn is_old(blob: &ListedBlob, before: Timestamp) -> bool {
    blob.changed_at.is_some_and(|changed_at| changed_at < before)
}

/// Which poison queues have letters, by name, each asked once.
struct PoisonQueues<'a> {
    state: &'a TransportState,
    have_letters: HashMap<String, bool>,
}

impl PoisonQueues<'_> {
    /// Whether a dead letter may refer to the blob.
    async fn may_need(&mut self, blob: &ListedBlob) -> Result<bool, Fault> {
        let Some(queue) = &blob.dead_in else { return Ok(false) };
        if let Some(known) = self.have_letters.get(queue) {
            return Ok(*known);
        }
        let has_letters = self.has_letters(queue).await?;
        self.have_letters.insert(queue.clone(), has_letters);
        Ok(has_letters)
    }

    /// Azure's count is never too low. A mark that names no queue is not one of ours, and is left alone.
    async fn has_letters(&self, queue: &str) -> Result<bool, Fault> {
        let Some(name) = QueueName::new(queue).ok().filter(|it| queue_name::check(it).is_ok())
        else {
            return Ok(true);
        };
        match self.state.service.queue(&name).count().await {
            Err(Fault { kind: FaultKind::QueueNotFound, .. }) => Ok(false),
            counted => counted.map(|count| count > 0),
        }
    }
}

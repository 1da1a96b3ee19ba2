//! Whose dead letters may be edited.

use bezoar::QueueName;
use http::StatusCode;

use super::App;
use crate::api::Problem;

/// Which queues' dead letters may be edited.
#[derive(Debug, Default)]
pub(crate) struct EditRules {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) approval: bool,
}

impl App {
    /// Whether edits need a second person's approval, whatever the queue.
    pub(crate) fn edits_need_approval(&self) -> bool {
        self.live(|live| live.editable.approval)
    }

    /// Whether edits of a queue's dead letters need a second person's approval; fails if they are not allowed.
    pub(crate) fn edits(&self, queue: &QueueName) -> Result<bool, Problem> {
        self.live(|live| {
            if live.editable.queues.contains(queue) {
                return Ok(live.editable.approval);
            }
            let detail = format!(
                "dead letters of queue {queue:?} cannot be edited; add it to dead_letters.editable to allow edits"
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
        })
    }
}

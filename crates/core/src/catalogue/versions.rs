//! Who may edit a dead letter, and who may approve the edit.

use super::{CatalogueError, DeadLetterState, DeadLetterSummary};

impl DeadLetterSummary {
    /// Checks whether an edited version can be added. A message has at most one version that can be replayed, so
    /// only the latest version can be edited.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::Taken`] while an operation holds it, [`CatalogueError::Conflict`] if it was edited
    /// before.
    pub fn check_edit(&self) -> Result<(), CatalogueError> {
        let id = self.id;
        match self.state {
            DeadLetterState::Open | DeadLetterState::Unapproved => Ok(()),
            DeadLetterState::Held(operation) => Err(CatalogueError::Taken { id, operation }),
            DeadLetterState::Edited => Err(CatalogueError::Conflict(format!(
                "dead letter {id} was edited before; edit its latest version, or discard that"
            ))),
        }
    }

    /// Checks whether `approver` may approve the version that `editor` created. They must be two
    /// different people.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::Conflict`] with the reason.
    pub fn check_approval(&self, editor: &str, approver: &str) -> Result<(), CatalogueError> {
        let id = self.id;
        let problem = match self.state {
            DeadLetterState::Unapproved if editor == approver => {
                format!("dead letter {id} was edited by {editor}; somebody else must approve it")
            }
            DeadLetterState::Unapproved => return Ok(()),
            state => format!("dead letter {id} is {} and waits for no approval", state.as_str()),
        };
        Err(CatalogueError::Conflict(problem))
    }
}

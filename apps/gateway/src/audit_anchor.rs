//! Notes the head of the audit log outside of the store: in a file beside it, and in the log of the program.
//!
//! The hash chain shows that entries were changed, removed or reordered, but its end is a plain row of the store: who can
//! write there can cut off the last entries and set the head back. The noted head shows that. It is noted every second
//! at most, and never moves back; from the first contradiction on, it stays as evidence.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use bezoar::catalogue::{AuditHead, Catalogue, CatalogueError};

use crate::atomic_file;

/// The name of the file ends with this, after that of the store.
const SUFFIX: &str = ".audit-head";

/// A head as it was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotedHead {
    pub(crate) count: u64,
    pub(crate) hash: String,
}

impl NotedHead {
    fn of(head: &AuditHead) -> Self {
        Self { count: head.count, hash: head.hash.to_string() }
    }

    fn parse(text: &str) -> Option<Self> {
        let (count, hash) = text.trim_end().split_once(' ')?;
        Some(Self { count: count.parse().ok()?, hash: hash.to_owned() })
    }
}

/// The file of a store, and what it says.
#[derive(Debug)]
pub(crate) struct AuditAnchor {
    path: PathBuf,
    state: Mutex<AnchorState>,
}

#[derive(Debug, Default)]
struct AnchorState {
    noted: Option<NotedHead>,
    /// Whether the log has been found to contradict it.
    contradicted: bool,
}

impl AuditAnchor {
    /// The anchor of a store. A file that cannot be read is reported, and begun anew.
    pub(crate) fn open(store: &Path) -> Self {
        let mut path = store.as_os_str().to_owned();
        path.push(SUFFIX);
        let path = PathBuf::from(path);
        let noted = match std::fs::read_to_string(&path) {
            Ok(text) => NotedHead::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let file = path.display();
                tracing::error!(%file, %error, "cannot read the noted head of the audit log");
                None
            }
        };
        let state = Mutex::new(AnchorState { noted, contradicted: false });
        Self { path, state }
    }

    /// What was noted last.
    pub(crate) fn noted(&self) -> Option<NotedHead> {
        self.lock().noted.clone()
    }

    /// Compares the log with what was noted, and notes how far it is now.
    pub(crate) async fn follow(&self, catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
        let noted = self.noted();
        let before = noted.as_ref().map_or(0, |noted| noted.count);
        let (entries, head) = catalogue.audit(before.saturating_sub(1), 1).await?;
        let now = NotedHead::of(&head);
        let intact = noted.as_ref().is_none_or(|noted| {
            let entry = entries.first().filter(|entry| entry.number == noted.count);
            let hash = entry.map_or(AuditHead::START.hash, |entry| entry.hash);
            now.count >= noted.count && hash.to_string() == noted.hash
        });
        if !intact {
            self.contradict(before);
        } else if noted.as_ref() != Some(&now) && now.count > 0 {
            self.note(now);
        }
        Ok(())
    }

    /// Says so once: the log is verified every second.
    fn contradict(&self, entry: u64) {
        let said_before = std::mem::replace(&mut self.lock().contradicted, true);
        if !said_before {
            let file = self.path.display();
            tracing::error!(entry, %file, "the audit log was cut or rewritten: it no longer contains the entry that was noted");
        }
    }

    fn note(&self, head: NotedHead) {
        let mut state = self.lock();
        if state.contradicted {
            return;
        }
        tracing::info!(entries = head.count, head = head.hash, "audit log");
        let text = format!("{} {}\n", head.count, head.hash);
        if let Err(error) = atomic_file::replace(&self.path, text.as_bytes()) {
            tracing::warn!(file = %self.path.display(), %error, "cannot note the head of the audit log");
        }
        state.noted = Some(head);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, AnchorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

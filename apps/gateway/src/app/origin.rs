//! The identity of this store in exports: its id, and the key that it signs them with.

use bezoar::{MessageId, catalogue::AuditedAction};

use super::App;
use crate::{api::Problem, export_signature::ExportKey};

const EXPORT_KEY: &str = "export-key";

impl App {
    /// The id of this store in exports, generated once.
    pub(crate) async fn origin(&self, action: &AuditedAction) -> Result<String, Problem> {
        let id = || MessageId::generate(self.now(), &mut rand::rng()).to_string();
        self.generated_once("origin", "created this store's export id", id, action).await
    }

    /// The key that this store signs its exports with, generated once.
    pub(crate) async fn export_key(&self, action: &AuditedAction) -> Result<ExportKey, Problem> {
        let target = "created this store's export key";
        let text = self.generated_once(EXPORT_KEY, target, ExportKey::generate, action).await?;
        Ok(ExportKey::from_text(&text))
    }

    /// The key that this store has signed exports with, if it has exported anything.
    pub(crate) async fn known_export_key(&self) -> Result<Option<ExportKey>, Problem> {
        let text = self.catalogue.setting(EXPORT_KEY).await?;
        Ok(text.as_deref().map(ExportKey::from_text))
    }

    async fn generated_once(
        &self,
        setting: &str,
        target: &str,
        generate: impl FnOnce() -> String,
        action: &AuditedAction,
    ) -> Result<String, Problem> {
        if let Some(value) = self.catalogue.setting(setting).await? {
            return Ok(value);
        }
        let value = generate();
        let made = AuditedAction { target: target.to_owned(), ..action.clone() };
        self.catalogue.set(setting, Some(&value), &made).await?;
        Ok(value)
    }
}

//! The id of this store in exports.

use bezoar::{MessageId, catalogue::AuditedAction};

use super::App;
use crate::api::Problem;

impl App {
    /// The id of this store in exports, generated once.
    pub(crate) async fn origin(&self, action: &AuditedAction) -> Result<String, Problem> {
        const SETTING: &str = "origin";
        if let Some(origin) = self.catalogue.setting(SETTING).await? {
            return Ok(origin);
        }
        let origin = MessageId::generate(self.now(), &mut rand::rng()).to_string();
        let made =
            AuditedAction { target: "created this store's export id".to_owned(), ..action.clone() };
        self.catalogue.set(SETTING, Some(&origin), &made).await?;
        Ok(origin)
    }
}

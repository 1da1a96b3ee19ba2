//! PostgreSQL: its options from the configuration, checks, and what an administrator creates.

mod config;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use bezoar::{
    ErrorKind, Finding, QueueAdmin, QueueName, Severity, Transport as _, TransportError,
    postgres::PostgresTransport,
};

pub(super) use config::KIND;
pub use config::PostgresConfig;
pub(crate) use config::{SCHEMES, STORE_KEYS};

use super::{BrokerFindings, BrokerTransport, PlanForm};
use crate::config::{Config, DeadLetterMode, Name};

fn open(config: &PostgresConfig, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>> {
    let max_message_bytes = usize::try_from(all.server.max_body_bytes)?;
    let options = config.options(&format!("transports.{name}"), max_message_bytes)?;
    let transport = PostgresTransport::open(options)
        .with_context(|| format!("cannot use transports.{name}"))?;
    Ok(Arc::new(transport))
}

#[async_trait]
impl BrokerTransport for PostgresTransport {
    /// There is only one way: the row moves to the table of dead letters.
    fn dead_lettering(&self, _: DeadLetterMode) -> Arc<dyn BrokerTransport> {
        Arc::new(self.clone())
    }

    async fn repair(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.provision(queue).await
    }

    async fn has_nothing_of(&self, queue: &QueueName) -> Result<bool, TransportError> {
        Ok(!self.validate(queue).await?.is_empty())
    }

    fn plan(&self, queues: &[QueueName], form: PlanForm) -> Result<String, TransportError> {
        if form != PlanForm::Commands {
            let kind = ErrorKind::Unsupported("a definitions file");
            let refused = TransportError::new(kind, self.capabilities().transport, "plan");
            return Err(refused.with_source("use `bezoar provision --print commands`"));
        }
        Ok(self.plan(queues))
    }

    async fn validate_all(&self, queues: &[QueueName]) -> Result<BrokerFindings, TransportError> {
        let mut checked = Vec::with_capacity(queues.len());
        for queue in queues {
            checked.push(Ok(self
                .validate(queue)
                .await?
                .into_iter()
                .map(will_be_created)
                .collect()));
        }
        Ok(BrokerFindings { shared: Vec::new(), queues: checked })
    }

    async fn validate_dead_letters(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        self.validate(queue).await
    }

    fn dead_letter_collectors(&self) -> Vec<QueueName> {
        Vec::new()
    }
}

/// What is missing and will be created is worth a note.
fn will_be_created(missing: Finding) -> Finding {
    let remedy = "it is created at the next start, or by `bezoar provision`";
    Finding::new(Severity::Note, missing.problem, remedy)
}

//! Azure Storage Queue: its options from the configuration, checks, and what an administrator creates.

mod account;
mod config;

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use bezoar::{
    ErrorKind, Finding, QueueAdmin, QueueName, Severity, Transport as _, TransportError,
    azure::{AzureTransport, Options},
    poison_retry::{PoisonQueue, RetryFields},
};
use futures_util::{StreamExt as _, stream};

pub use account::{AccountConfig, CredentialKind};
pub(super) use config::KIND;
pub use config::{AzureConfig, ErrorTextsChoice, ForeignTextChoice};

use super::{BrokerFindings, BrokerTransport, PlanForm};
use crate::config::{Config, DeadLetterMode, Name};

fn open(config: &AzureConfig, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>> {
    let options = Options { poison_queues: poison_queues(name, all), ..config.options() };
    let transport =
        AzureTransport::open(options).with_context(|| format!("cannot use transports.{name}"))?;
    Ok(Arc::new(transport))
}

/// The names of poison queues that are configured, by queue. What a `[[poison_retry]]` gives up goes to a queue of its own.
fn poison_queues(broker: &Name, all: &Config) -> BTreeMap<QueueName, QueueName> {
    let of_broker = all.queues.iter().filter_map(|queue| {
        let (transport, there) = all.broker(&queue.name)?;
        let poison = QueueName::new(queue.dead_letter_queue.as_ref()?.as_str()).ok()?;
        (transport.name == *broker).then_some((there, poison))
    });
    of_broker.chain(all.poison_retry_queues(broker)).collect()
}

/// How many queues are checked at a time.
const CHECKS: usize = 16;

#[async_trait]
impl BrokerTransport for AzureTransport {
    /// There is only one way: a record in the poison queue.
    fn dead_lettering(&self, _: DeadLetterMode) -> Arc<dyn BrokerTransport> {
        Arc::new(self.clone())
    }

    async fn repair(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.create_missing(queue).await
    }

    /// Both queues are gone, as if the account were new.
    async fn has_nothing_of(&self, queue: &QueueName) -> Result<bool, TransportError> {
        Ok(self.validate(queue).await?.len() == self.needed_names(queue)?.queues.len())
    }

    fn plan(&self, queues: &[QueueName], form: PlanForm) -> Result<String, TransportError> {
        if form != PlanForm::Commands {
            let kind = ErrorKind::Unsupported("a definitions file");
            let refused = TransportError::new(kind, self.capabilities().transport, "plan");
            return Err(refused.with_source("use `bezoar provision --print commands`"));
        }
        let mut text =
            "# add --connection-string, or --account-name and --auth-mode login\n".to_owned();
        let mut container = None;
        for queue in queues {
            let needed = self.needed_names(queue)?;
            for name in needed.queues {
                let _ = writeln!(text, "az storage queue create --name {name}");
            }
            container = needed.container;
        }
        if let Some(container) = container {
            let _ = writeln!(text, "az storage container create --name {container}");
        }
        Ok(text)
    }

    async fn validate_all(&self, queues: &[QueueName]) -> Result<BrokerFindings, TransportError> {
        let checks: Vec<_> = queues.iter().map(|queue| self.validate(queue)).collect();
        let checked = stream::iter(checks).buffered(CHECKS);
        let checked: Vec<_> = match self.creates_missing() {
            true => checked.map(|found| found.map(will_be_created)).collect().await,
            false => checked.collect().await,
        };
        match checked.iter().find_map(|it| it.as_ref().err().filter(|error| of_account(error))) {
            Some(error) => Err(error.again()),
            None => Ok(BrokerFindings { shared: Vec::new(), queues: checked }),
        }
    }

    async fn validate_dead_letters(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        let missing = self.validate(queue).await?.into_iter();
        let remedy = "create it, or correct the name; letters are taken in from one and replayed to the other";
        Ok(missing.map(|it| Finding::new(Severity::Error, it.problem, remedy)).collect())
    }

    fn dead_letter_collectors(&self) -> Vec<QueueName> {
        Vec::new()
    }

    fn poison_queue(
        &self,
        queue: &QueueName,
        fields: RetryFields,
    ) -> Result<Arc<dyn PoisonQueue>, TransportError> {
        Ok(Arc::new(self.poison_queue(queue, fields)?))
    }

    async fn remove_orphans(&self, age: Duration) -> Result<u64, TransportError> {
        self.remove_orphans(age).await
    }
}

/// What is missing and will be created is worth a note.
fn will_be_created(missing: Vec<Finding>) -> Vec<Finding> {
    let remedy = "it is created at the next start, or by `bezoar provision`";
    missing.into_iter().map(|it| Finding::new(Severity::Note, it.problem, remedy)).collect()
}

/// Whether every queue of the account has this problem.
fn of_account(error: &TransportError) -> bool {
    !matches!(error.kind, ErrorKind::Invalid(_) | ErrorKind::QueueNotFound(_))
}

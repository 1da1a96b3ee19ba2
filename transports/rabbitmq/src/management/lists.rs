//! Lists: of all queues of a virtual host, of its delay queues, and of everything that a check of many queues needs.

use std::{collections::HashMap, time::Duration};

use bezoar_core::{ErrorKind, TransportError};
use serde_json::Value;
use tokio::time::timeout;

use super::{Management, encoded, memory::CheckMemory};
use crate::{
    check::binding_routes::ExchangeBindings,
    error::error,
    topology::{UNROUTABLE, delay_topology},
};

/// Queues or exchanges per page: an unpaged list is expensive on a large broker.
const PAGE: usize = 500;
const PAGES_LIMIT: usize = 200;
/// How many queues a check must have for each page of a list. For fewer it is cheaper to ask for one at a time.
const QUEUES_PER_PAGE: usize = 50;
/// How long a check waits for a list. If a node is down, the broker may take much longer.
const LISTED_WITHIN: Duration = Duration::from_secs(3);

/// What a check needs to know of a queue.
const QUEUE_COLUMNS: &str =
    "name,type,durable,auto_delete,arguments,policy,effective_policy_definition,messages_dlx";
const EXCHANGE_COLUMNS: &str = "name,type,policy";
const BINDING_COLUMNS: &str = "source,destination,destination_type,routing_key";

/// How many queues and exchanges are about to be asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) queues: usize,
    pub(crate) exchanges: usize,
}

impl Management {
    /// The names of all queues of the virtual host.
    pub(crate) async fn queues(
        &self,
        operation: &'static str,
    ) -> Result<Vec<String>, TransportError> {
        let Some(all) = self.pages("queues", "name", PAGES_LIMIT, operation).await? else {
            let many = format!("the virtual host has more than {} queues", PAGE * PAGES_LIMIT);
            return Err(error(ErrorKind::Unusable, operation).with_source(many));
        };
        Ok(all.iter().filter_map(|it| it["name"].as_str()).map(str::to_owned).collect())
    }

    /// Name, arguments, policy, leader and expired messages of the delay queues and of `bezoar.unroutable`.
    pub(crate) async fn delay_queues(
        &self,
        operation: &'static str,
    ) -> Result<Vec<Value>, TransportError> {
        let names = format!("^({}|{UNROUTABLE}$)", delay_topology::PREFIX);
        let pattern = encoded(&names.replace('.', "\\."));
        let columns = "name,arguments,policy,effective_policy_definition,leader,messages_dlx";
        let query = format!("columns={columns}&page=1&page_size={PAGE}");
        let path =
            format!("api/queues/{}?{query}&use_regex=true&name={pattern}", encoded(&self.vhost));
        let answer = self.get(&path, operation).await?.unwrap_or_default();
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    /// Learns everything from a few lists if many queues or exchanges are needed. Otherwise, and if there is no answer in
    /// time, each is asked for when it is needed.
    pub(crate) async fn learn_many(&self, needed: Needed, operation: &'static str) {
        let Some(memory) = &self.memory else { return };
        let learning = async {
            tokio::join!(
                self.learn_queues(memory, needed.queues / QUEUES_PER_PAGE, operation),
                self.learn_exchanges(memory, needed.exchanges / QUEUES_PER_PAGE, operation),
            )
        };
        match timeout(LISTED_WITHIN, learning).await {
            Ok((Ok(()), Ok(()))) => (),
            Ok((Err(failed), _) | (_, Err(failed))) => {
                tracing::debug!(error = %failed, "cannot list queues and exchanges");
            }
            Err(_) => tracing::debug!("listing queues and exchanges takes too long"),
        }
    }

    async fn learn_queues(
        &self,
        memory: &CheckMemory,
        most_pages: usize,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        if let Some(all) = self.pages("queues", QUEUE_COLUMNS, most_pages, operation).await? {
            memory.queues.learn_all(named(all));
        }
        Ok(())
    }

    /// All bindings at once: there is no list of the bindings of some exchanges.
    async fn learn_exchanges(
        &self,
        memory: &CheckMemory,
        most_pages: usize,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let Some(all) = self.pages("exchanges", EXCHANGE_COLUMNS, most_pages, operation).await?
        else {
            return Ok(());
        };
        memory.exchanges.learn_all(named(all));
        let path = format!("api/bindings/{}?columns={BINDING_COLUMNS}", encoded(&self.vhost));
        if let Some(Value::Array(bindings)) = self.get(&path, operation).await? {
            memory.bindings.learn_all(by_source(&bindings));
        }
        Ok(())
    }

    /// All items of a list; `None` if it has more than `most` pages, or has changed meanwhile.
    async fn pages(
        &self,
        of: &str,
        columns: &str,
        most: usize,
        operation: &'static str,
    ) -> Result<Option<Vec<Value>>, TransportError> {
        let (vhost, mut items) = (encoded(&self.vhost), Vec::new());
        for page in 1..=most {
            let path = format!("api/{of}/{vhost}?columns={columns}&page={page}&page_size={PAGE}");
            let mut answer = self.get(&path, operation).await?.unwrap_or_default();
            let pages = answer["page_count"].as_u64();
            if pages.is_some_and(|pages| pages > most as u64) {
                return Ok(None);
            }
            let Value::Array(some) = answer["items"].take() else { return Ok(None) };
            let is_last = some.len() < PAGE || pages == Some(page as u64);
            items.extend(some);
            if is_last {
                let is_complete = |total| total == items.len() as u64;
                return Ok(answer["total_count"].as_u64().is_none_or(is_complete).then_some(items));
            }
        }
        Ok(None)
    }
}

fn named(items: Vec<Value>) -> impl Iterator<Item = (String, Option<Value>)> {
    items.into_iter().filter_map(|it| Some((it["name"].as_str()?.to_owned(), Some(it))))
}

fn by_source(bindings: &[Value]) -> HashMap<String, ExchangeBindings> {
    let mut sources: HashMap<String, ExchangeBindings> = HashMap::new();
    for binding in bindings {
        let source = binding["source"].as_str().unwrap_or_default();
        sources.entry(source.to_owned()).or_default().add(binding);
    }
    sources
}

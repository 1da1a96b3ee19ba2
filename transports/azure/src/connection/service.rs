//! The account's queue service: the official client with our signing, timeouts and error mapping.

use std::{fmt, sync::Arc, time::Duration};

use azure_core::http::{ClientOptions, RetryOptions, Transport, Url, policies::Policy};
use azure_storage_queue::{QueueServiceClient, QueueServiceClientOptions};
use bezoar_core::{Invalid, QueueName};
use futures_util::TryStreamExt;
use secrecy::ExposeSecret;
use tokio::time::timeout;

use crate::{
    Options,
    connection::{account::Credential, queue_client::Queue, shared_key::SharedKeyPolicy},
    error::{Fault, FaultContext, FaultKind},
};

/// A version of the REST API that Azure keeps supporting and that emulators know.
const API_VERSION: &str = "2024-11-04";

#[derive(Clone)]
pub(crate) struct Service {
    client: Arc<QueueServiceClient>,
    pub(crate) requests: Requests,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service(..)")
    }
}

impl Service {
    pub(crate) fn new(options: &Options) -> Result<Self, Invalid> {
        let account = &options.account;
        let refused = |_| Invalid::new("endpoint", "cannot be used for queues");
        let mut per_try_policies: Vec<Arc<dyn Policy>> = Vec::new();
        let mut endpoint = account.endpoint.clone();
        let mut token = None;
        match &account.credential {
            Credential::SharedKey { account, key } => {
                let (account, key, clock) = (account.clone(), key.clone(), options.clock.clone());
                per_try_policies.push(Arc::new(SharedKeyPolicy { account, key, clock }));
            }
            Credential::Sas(query) => endpoint.set_query(Some(query.expose_secret())),
            Credential::Token(credential) => token = Some(credential.clone()),
        }
        let client_options = ClientOptions {
            per_try_policies,
            // The worker retries, and knows what it is retrying.
            retry: RetryOptions::none(),
            transport: Some(Transport::new(Arc::new(http_client(options)?))),
            ..ClientOptions::default()
        };
        let client_options =
            QueueServiceClientOptions { client_options, version: API_VERSION.to_owned() };
        let client =
            QueueServiceClient::new(endpoint, token, Some(client_options)).map_err(refused)?;
        let context =
            FaultContext { sas_expiry: account.sas_expiry(), clock: options.clock.clone() };
        let requests = Requests { timeout: options.request_timeout, context };
        Ok(Self { client: Arc::new(client), requests })
    }

    pub(crate) fn queue(&self, name: &QueueName) -> Queue {
        let client = self.client.queue_client(name.as_str());
        let client = client.expect("the endpoint was checked to be a URL with a path");
        Queue::new(name.clone(), client, self.requests.clone())
    }

    /// The names of all queues.
    pub(crate) async fn queue_names(&self) -> Result<Vec<String>, Fault> {
        let listing = async {
            let pages = self.client.list_queues(None)?.into_pages();
            let pages = pages.and_then(|page| async move { page.into_model() });
            let items =
                pages.try_collect::<Vec<_>>().await?.into_iter().flat_map(|it| it.queue_items);
            Ok(items.filter_map(|it| it.name).collect())
        };
        self.requests.run(listing).await
    }
}

fn http_client(options: &Options) -> Result<reqwest::Client, Invalid> {
    // The client panics without a provider; whoever installed one before keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .connect_timeout(options.request_timeout)
        .redirect(reqwest::redirect::Policy::none());
    let builder = if is_loopback(&options.account.endpoint) { builder.no_proxy() } else { builder };
    builder
        .build()
        .map_err(|_| Invalid::new("endpoint", "needs a TLS configuration that cannot be built"))
}

fn is_loopback(endpoint: &Url) -> bool {
    matches!(endpoint.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

/// How every request is made.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    timeout: Duration,
    context: FaultContext,
}

impl Requests {
    /// Awaits the request and its answer within the timeout.
    pub(crate) async fn run<T>(
        &self,
        request: impl Future<Output = azure_core::Result<T>>,
    ) -> Result<T, Fault> {
        match timeout(self.timeout, request).await {
            Ok(answered) => answered.map_err(|failed| self.context.fault(&failed)),
            Err(_) => {
                Err(Fault::new(FaultKind::NoAnswer, format!("no answer within {:?}", self.timeout)))
            }
        }
    }
}

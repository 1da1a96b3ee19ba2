//! The account's queue service: the official client with our signing, timeouts and error mapping.

use std::{fmt, sync::Arc, time::Duration};

use azure_core::{
    credentials::TokenCredential,
    http::{
        ClientOptions, Pipeline, RetryOptions, Transport, Url,
        policies::{Policy, auth::BearerTokenAuthorizationPolicy},
    },
};
use azure_storage_queue::{QueueServiceClient, QueueServiceClientOptions};
use bezoar_core::{Invalid, QueueName};
use futures_util::TryStreamExt;
use secrecy::ExposeSecret;
use tokio::time::timeout;

use crate::{
    Options,
    claim_check::Bodies,
    connection::{
        account::Credential, blob_container::BlobStorage, queue_client::Queue,
        shared_key::SharedKeyPolicy,
    },
    error::{Fault, FaultContext, FaultKind},
};

/// A version of the REST API that Azure keeps supporting and that emulators know.
pub(crate) const API_VERSION: &str = "2024-11-04";

#[derive(Clone)]
pub(crate) struct Service {
    client: Arc<QueueServiceClient>,
    requests: Requests,
    /// Bodies in Blob Storage, if the account has it.
    pub(crate) bodies: Option<Bodies>,
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
        let client_options = client_options(options)?;
        let token = token(&account.credential, &client_options)?;
        let queue_options = QueueServiceClientOptions {
            client_options: client_options.clone(),
            version: API_VERSION.to_owned(),
        };
        let endpoint = signed(&account.endpoint, &account.credential);
        let client = QueueServiceClient::new(endpoint, token.clone(), Some(queue_options));
        let context = FaultContext {
            sas_expiry: account.sas_expiry(),
            no_token: no_token(&account.credential),
            clock: options.clock.clone(),
        };
        let requests = Requests { timeout: options.request_timeout, context };
        let bodies = account.blob_endpoint.as_ref();
        let bodies =
            bodies.map(|endpoint| bodies_at(endpoint, options, client_options, token, &requests));
        Ok(Self { client: Arc::new(client.map_err(refused)?), requests, bodies })
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

/// What gets tokens, for the credentials that need them.
fn token(
    credential: &Credential,
    client_options: &ClientOptions,
) -> Result<Option<Arc<dyn TokenCredential>>, Invalid> {
    match credential {
        Credential::Token(credential) => Ok(Some(credential.clone())),
        Credential::Identity(identity) => identity.credential(client_options.clone()).map(Some),
        Credential::SharedKey { .. } | Credential::Sas(_) => Ok(None),
    }
}

/// What to check if there is no token.
fn no_token(credential: &Credential) -> &'static str {
    match credential {
        Credential::Identity(identity) => identity.remedy(),
        _ => "check the credential",
    }
}

/// The endpoint, with the shared access signature if there is one.
fn signed(endpoint: &Url, credential: &Credential) -> Url {
    let mut endpoint = endpoint.clone();
    if let Credential::Sas(query) = credential {
        endpoint.set_query(Some(query.expose_secret()));
    }
    endpoint
}

fn client_options(options: &Options) -> Result<ClientOptions, Invalid> {
    let mut per_try_policies: Vec<Arc<dyn Policy>> = Vec::new();
    if let Credential::SharedKey { account, key } = &options.account.credential {
        let (account, key, clock) = (account.clone(), key.clone(), options.clock.clone());
        per_try_policies.push(Arc::new(SharedKeyPolicy { account, key, clock }));
    }
    Ok(ClientOptions {
        per_try_policies,
        // The worker retries, and knows what it is retrying.
        retry: RetryOptions::none(),
        transport: Some(Transport::new(Arc::new(http_client(options)?))),
        ..ClientOptions::default()
    })
}

fn bodies_at(
    endpoint: &Url,
    options: &Options,
    client_options: ClientOptions,
    token: Option<Arc<dyn TokenCredential>>,
    requests: &Requests,
) -> Bodies {
    let mut policies: Vec<Arc<dyn Policy>> = Vec::new();
    if let Some(credential) = token {
        let scope = "https://storage.azure.com/.default";
        policies.push(Arc::new(BearerTokenAuthorizationPolicy::new(credential, [scope])));
    }
    let (name, version) = (option_env!("CARGO_PKG_NAME"), option_env!("CARGO_PKG_VERSION"));
    let pipeline = Pipeline::new(name, version, client_options, Vec::new(), policies, None);
    let url = signed(endpoint, &options.account.credential);
    let storage = BlobStorage::new(url, pipeline, requests.clone());
    let container = options.claim_check.clone().unwrap_or_default().container;
    Bodies::new(storage, container, options.create_if_missing)
}

fn http_client(options: &Options) -> Result<reqwest::Client, Invalid> {
    // The client panics without a provider; whoever installed one before keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .connect_timeout(options.request_timeout)
        .pool_idle_timeout(idle_timeout(&options.account.endpoint))
        .redirect(reqwest::redirect::Policy::none());
    let builder = if is_loopback(&options.account.endpoint) { builder.no_proxy() } else { builder };
    builder
        .build()
        .map_err(|_| Invalid::new("endpoint", "needs a TLS configuration that cannot be built"))
}

/// How long an unused connection is kept. A request on a connection that the server is just closing fails, and emulators,
/// which use no TLS, close theirs after 5 s. Connecting to them costs little.
fn idle_timeout(endpoint: &Url) -> Duration {
    Duration::from_secs(if endpoint.scheme() == "http" { 2 } else { 60 })
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

//! The HTTP API of the management plugin. Tolerant: fields differ between versions.
//!
//! What answers may not be the management API, so nothing is taken on trust: a redirect is not followed, and an answer
//! has a limit and a deadline.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar_core::{ErrorKind, Invalid, TransportError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, Client, Response, StatusCode, Url, redirect::Policy};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::{
    Options,
    error::{error, unavailable},
    topology::{UNROUTABLE, delay_topology},
};

/// Queues per page: an unpaged list is expensive on a large broker.
const PAGE: usize = 500;
const PAGES_LIMIT: usize = 200;
/// The largest answer. A page of queues has about 50 KiB.
const ANSWER_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// The bindings from exchanges, by the name of the exchange.
type RememberedBindings = HashMap<String, Arc<[Value]>>;

#[derive(Clone)]
pub(crate) struct Management {
    client: Client,
    /// Without credentials.
    base: Url,
    user: String,
    password: Option<String>,
    vhost: String,
    timeout: Duration,
    /// The bindings from exchanges that were asked for before, if it remembers them.
    remembered: Option<Arc<Mutex<RememberedBindings>>>,
}

impl std::fmt::Debug for Management {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Management").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Management {
    pub(crate) fn new(options: &Options) -> Result<Option<Self>, Invalid> {
        let Some(url) = &options.management_url else {
            return match options.management_ca {
                Some(_) => Err(Invalid::new("management_ca", "needs management_url")),
                None => Ok(None),
            };
        };
        let invalid = || Invalid::new("management_url", "is not http://USER:PASSWORD@HOST:PORT");
        let mut base: Url = url.expose_secret().parse().map_err(|_| invalid())?;
        let decode = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
        let (user, password) = (decode(base.username()), base.password().map(decode));
        base.set_username("").and_then(|()| base.set_password(None)).map_err(|()| invalid())?;
        if options.management_ca.is_some() && base.scheme() != "https" {
            return Err(Invalid::new("management_url", "is not https, but management_ca is set"));
        }
        let (client, vhost) = (client(options)?, options.uri()?.vhost);
        let timeout = options.connect_timeout;
        Ok(Some(Self { client, base, user, password, vhost, timeout, remembered: None }))
    }

    /// A client for one check of many queues, which asks only once for the bindings from an exchange that they share:
    /// there are as many as queues.
    pub(crate) fn remembering(&self) -> Self {
        Self { remembered: Some(Arc::default()), ..self.clone() }
    }

    /// The names of all queues of the virtual host.
    pub(crate) async fn queues(
        &self,
        operation: &'static str,
    ) -> Result<Vec<String>, TransportError> {
        let (vhost, mut names) = (encoded(&self.vhost), Vec::new());
        for page in 1..=PAGES_LIMIT {
            let path = format!("api/queues/{vhost}?columns=name&page={page}&page_size={PAGE}");
            let answer = self.get(&path, operation).await?.unwrap_or_default();
            let items = answer["items"].as_array().cloned().unwrap_or_default();
            names.extend(items.iter().filter_map(|it| it["name"].as_str()).map(str::to_owned));
            if items.len() < PAGE {
                return Ok(names);
            }
        }
        let many = format!("the virtual host has more than {} queues", PAGE * PAGES_LIMIT);
        Err(error(ErrorKind::Unusable, operation).with_source(many))
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

    /// The description of a queue, if it exists.
    pub(crate) async fn queue(
        &self,
        name: &str,
        operation: &'static str,
    ) -> Result<Option<Value>, TransportError> {
        self.get(&format!("api/queues/{}/{}", encoded(&self.vhost), encoded(name)), operation).await
    }

    /// The description of an exchange, if it exists.
    pub(crate) async fn exchange(
        &self,
        name: &str,
        operation: &'static str,
    ) -> Result<Option<Value>, TransportError> {
        let path = format!("api/exchanges/{}/{}", encoded(&self.vhost), encoded(name));
        self.get(&path, operation).await
    }

    /// The definition of the policy that applies to an exchange; null if there is none.
    pub(crate) async fn policy_of_exchange(
        &self,
        name: &str,
        operation: &'static str,
    ) -> Result<Value, TransportError> {
        let seen = self.exchange(name, operation).await?.unwrap_or_default();
        let Some(policy) = seen["policy"].as_str() else { return Ok(Value::Null) };
        let path = format!("api/policies/{}/{}", encoded(&self.vhost), encoded(policy));
        let policy = self.get(&path, operation).await?.unwrap_or_default();
        Ok(policy["definition"].clone())
    }

    /// The bindings from an exchange to queues and to other exchanges.
    pub(crate) async fn bindings_from(
        &self,
        exchange: &str,
        operation: &'static str,
    ) -> Result<Arc<[Value]>, TransportError> {
        let remembered = |of: &Mutex<RememberedBindings>| lock(of).get(exchange).cloned();
        if let Some(bindings) = self.remembered.as_deref().and_then(remembered) {
            return Ok(bindings);
        }
        let (vhost, encoded) = (encoded(&self.vhost), encoded(exchange));
        let path = format!("api/exchanges/{vhost}/{encoded}/bindings/source");
        let bindings: Arc<[Value]> = match self.get(&path, operation).await? {
            Some(Value::Array(bindings)) => bindings.into(),
            _ => Arc::default(),
        };
        if let Some(of) = &self.remembered {
            lock(of).insert(exchange.to_owned(), bindings.clone());
        }
        Ok(bindings)
    }

    /// The bindings from exchanges to a queue.
    pub(crate) async fn bindings_to(
        &self,
        queue: &str,
        operation: &'static str,
    ) -> Result<Vec<Value>, TransportError> {
        let path = format!("api/queues/{}/{}/bindings", encoded(&self.vhost), encoded(queue));
        let answer = self.get(&path, operation).await?.unwrap_or_default();
        Ok(answer.as_array().cloned().unwrap_or_default())
    }

    /// Versions.
    pub(crate) async fn overview(&self, operation: &'static str) -> Result<Value, TransportError> {
        Ok(self.get("api/overview?columns=rabbitmq_version", operation).await?.unwrap_or_default())
    }

    /// Each node with its alarms.
    pub(crate) async fn nodes(&self, operation: &'static str) -> Result<Value, TransportError> {
        let columns = "name,running,mem_alarm,disk_free_alarm,partitions";
        Ok(self.get(&format!("api/nodes?columns={columns}"), operation).await?.unwrap_or_default())
    }

    /// The JSON answer; `None` if the resource does not exist.
    async fn get(
        &self,
        path: &str,
        operation: &'static str,
    ) -> Result<Option<Value>, TransportError> {
        let url = self.base.join(path).map_err(|_| error(ErrorKind::Other, operation))?;
        // Applies to the whole request, with the body of the answer.
        let request = self.client.get(url).timeout(self.timeout);
        let request = request.basic_auth(&self.user, self.password.as_deref());
        let answer = request.send().await.map_err(|source| failed(source, operation))?;
        match answer.status() {
            StatusCode::OK => {
                let body = read_limited(answer, operation).await?;
                serde_json::from_slice(&body).map(Some).map_err(|_| {
                    unavailable(operation, "the management API did not answer with JSON")
                })
            }
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(error(ErrorKind::NotAuthorized, operation)
                    .with_source("the user needs the tag `monitoring` for the management API"))
            }
            status if status.is_redirection() => Err(unavailable(
                operation,
                "the management API answered with a redirect; set management_url to the address that it leads to",
            )),
            status => Err(error(ErrorKind::Unavailable, operation)
                .with_source(format!("the management API answered {status}"))),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn client(options: &Options) -> Result<Client, Invalid> {
    // reqwest is built without a crypto provider; one that is already installed is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect could lead the password to another server.
    let mut client = Client::builder().redirect(Policy::none());
    if let Some(pem) = &options.management_ca {
        client = client.tls_certs_merge(authorities(&pem.read("management_ca")?)?);
    }
    client.build().map_err(|_| Invalid::new("management_ca", "cannot be used for TLS"))
}

fn authorities(pem: &str) -> Result<Vec<Certificate>, Invalid> {
    match Certificate::from_pem_bundle(pem.as_bytes()) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(Invalid::new("management_ca", "contains no valid certificate")),
    }
}

/// The body of an answer, if it is not too large.
async fn read_limited(
    mut answer: Response,
    operation: &'static str,
) -> Result<Vec<u8>, TransportError> {
    let mut body = Vec::new();
    let announced = answer.content_length().unwrap_or(0);
    let mut is_too_large = announced > ANSWER_LIMIT_BYTES as u64;
    while !is_too_large {
        match answer.chunk().await.map_err(|source| failed(source, operation))? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => return Ok(body),
        }
        is_too_large = body.len() > ANSWER_LIMIT_BYTES;
    }
    let limit = format!(
        "the answer of the management API is larger than {} MiB; check management_url",
        ANSWER_LIMIT_BYTES / (1024 * 1024)
    );
    Err(error(ErrorKind::Unavailable, operation).with_source(limit))
}

/// reqwest's own text does not name the cause, which is the last of its sources.
fn failed(source: reqwest::Error, operation: &'static str) -> TransportError {
    if source.is_timeout() {
        return unavailable(operation, "the management API did not answer in time");
    }
    let mut cause: &dyn Error = &source;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    // Without a deeper cause it is reqwest's own text, which contains the URL.
    let text = match source.source() {
        Some(_) => cause.to_string(),
        None => "the request failed".to_owned(),
    };
    let text = format!("management API: {text}; check management_url and management_ca");
    error(ErrorKind::Unavailable, operation).with_source(text)
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

//! The HTTP API of the management plugin. Tolerant: fields differ between versions.
//!
//! What answers may not be the management API, so nothing is taken on trust: a redirect is not followed, and an answer
//! has a limit and a deadline.

mod lists;
mod memory;

use std::{error::Error, sync::Arc, time::Duration};

use bezoar_core::{ErrorKind, Invalid, TransportError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, Client, Response, StatusCode, Url, redirect::Policy};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::{
    Options,
    check::binding_routes::ExchangeBindings,
    error::{error, unavailable},
};

pub(crate) use lists::Needed;
use memory::CheckMemory;

/// The largest answer. A page of queues has about 50 KiB.
const ANSWER_LIMIT_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Management {
    client: Client,
    /// Without credentials.
    base: Url,
    user: String,
    password: Option<String>,
    vhost: String,
    timeout: Duration,
    /// What was asked for before, if it remembers.
    memory: Option<Arc<CheckMemory>>,
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
        Ok(Some(Self { client, base, user, password, vhost, timeout, memory: None }))
    }

    /// A client for one check, which asks for each queue and exchange once.
    pub(crate) fn remembering(&self) -> Self {
        Self { memory: Some(Arc::default()), ..self.clone() }
    }

    /// The description of a queue, if it exists.
    pub(crate) async fn queue(
        &self,
        name: &str,
        operation: &'static str,
    ) -> Result<Option<Value>, TransportError> {
        let path = format!("api/queues/{}/{}", encoded(&self.vhost), encoded(name));
        let asking = self.get(&path, operation);
        match &self.memory {
            Some(memory) => Ok((*memory.queues.get(name, asking).await?).clone()),
            None => asking.await,
        }
    }

    /// The description of an exchange, if it exists.
    pub(crate) async fn exchange(
        &self,
        name: &str,
        operation: &'static str,
    ) -> Result<Option<Value>, TransportError> {
        let path = format!("api/exchanges/{}/{}", encoded(&self.vhost), encoded(name));
        let asking = self.get(&path, operation);
        match &self.memory {
            Some(memory) => Ok((*memory.exchanges.get(name, asking).await?).clone()),
            None => asking.await,
        }
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
    ) -> Result<Arc<ExchangeBindings>, TransportError> {
        let (vhost, encoded) = (encoded(&self.vhost), encoded(exchange));
        let path = format!("api/exchanges/{vhost}/{encoded}/bindings/source");
        let asking = async {
            let answer = self.get(&path, operation).await?;
            Ok(answer.iter().filter_map(Value::as_array).flatten().collect::<ExchangeBindings>())
        };
        match &self.memory {
            Some(memory) => memory.bindings.get(exchange, asking).await,
            None => asking.await.map(Arc::new),
        }
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

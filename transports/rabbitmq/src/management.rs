//! The HTTP API of the management plugin. Tolerant: fields differ between versions.

use std::time::Duration;

use bezoar_core::{ErrorKind, Invalid, TransportError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, StatusCode, Url};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::{
    Options,
    error::{error, unavailable},
};

/// Queues per page: an unpaged list is expensive on a large broker.
const PAGE: usize = 500;

pub(crate) struct Management {
    client: Client,
    /// Without credentials.
    base: Url,
    user: String,
    password: Option<String>,
    vhost: String,
    timeout: Duration,
}

impl std::fmt::Debug for Management {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Management").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Management {
    pub(crate) fn new(options: &Options) -> Result<Option<Self>, Invalid> {
        let Some(url) = &options.management_url else { return Ok(None) };
        let invalid = || Invalid::new("management_url", "is not http://USER:PASSWORD@HOST:PORT");
        let mut base: Url = url.expose_secret().parse().map_err(|_| invalid())?;
        let decode = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
        let (user, password) = (decode(base.username()), base.password().map(decode));
        base.set_username("").and_then(|()| base.set_password(None)).map_err(|()| invalid())?;
        // reqwest is built without a crypto provider; one that is already installed is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().build().map_err(|_| invalid())?;
        let (vhost, timeout) = (options.uri()?.vhost, options.connect_timeout);
        Ok(Some(Self { client, base, user, password, vhost, timeout }))
    }

    /// The names of all queues of the virtual host.
    pub(crate) async fn queues(
        &self,
        operation: &'static str,
    ) -> Result<Vec<String>, TransportError> {
        let (vhost, mut names) = (encoded(&self.vhost), Vec::new());
        for page in 1.. {
            let path = format!("api/queues/{vhost}?columns=name&page={page}&page_size={PAGE}");
            let answer = self.get(&path, operation).await?.unwrap_or_default();
            let items = answer["items"].as_array().cloned().unwrap_or_default();
            names.extend(items.iter().filter_map(|it| it["name"].as_str()).map(str::to_owned));
            if items.len() < PAGE {
                break;
            }
        }
        Ok(names)
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

    /// The bindings from an exchange to queues and to other exchanges.
    pub(crate) async fn bindings_from(
        &self,
        exchange: &str,
        operation: &'static str,
    ) -> Result<Vec<Value>, TransportError> {
        let (vhost, exchange) = (encoded(&self.vhost), encoded(exchange));
        let path = format!("api/exchanges/{vhost}/{exchange}/bindings/source");
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
        let request = self.client.get(url).timeout(self.timeout);
        let request = request.basic_auth(&self.user, self.password.as_deref());
        let failed = |source: reqwest::Error| {
            error(ErrorKind::Unavailable, operation).with_source(source.without_url())
        };
        let answer = request.send().await.map_err(failed)?;
        match answer.status() {
            StatusCode::OK => {
                let bytes = answer.bytes().await.map_err(failed)?;
                serde_json::from_slice(&bytes).map(Some).map_err(|_| {
                    unavailable(operation, "the management API did not answer with JSON")
                })
            }
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(error(ErrorKind::NotAuthorized, operation)
                    .with_source("the user needs the tag `monitoring` for the management API"))
            }
            status => Err(error(ErrorKind::Unavailable, operation)
                .with_source(format!("the management API answered {status}"))),
        }
    }
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

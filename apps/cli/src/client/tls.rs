//! Connections, with TLS where the URL asks for it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};

use super::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects within a time limit; trusts the system's root certificates.
pub(super) fn connector(url: &Url) -> Result<HttpsConnector<HttpConnector>> {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    http.enforce_http(false);
    let tls = HttpsConnectorBuilder::new().with_tls_config(config(url)?);
    Ok(tls.https_or_http().enable_http1().wrap_connector(http))
}

fn config(url: &Url) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // Most gateways are local: reading the system's certificates would cost more than the request.
    let trusting = if url.is_https() {
        versions.with_native_roots().context("no root certificates found on this system")?
    } else {
        versions.with_root_certificates(RootCertStore::empty())
    };
    Ok(trusting.with_no_client_auth())
}

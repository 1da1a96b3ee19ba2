//! The root certificates for endpoints.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier, crypto::ring::default_provider,
};
use tokio::{sync::OnceCell, task::spawn_blocking};

use super::{CallError, CallErrorKind};

/// The TLS configuration. The system's root certificates are loaded on first use: that takes a while, and a gateway
/// with plain http endpoints never needs them.
#[derive(Debug, Clone)]
pub(super) struct TlsTrust(Arc<OnceCell<Arc<ClientConfig>>>);

impl TlsTrust {
    pub(super) fn new(config: Option<Arc<ClientConfig>>) -> Self {
        Self(Arc::new(OnceCell::new_with(config)))
    }

    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, CallError> {
        let read = || async { spawn_blocking(system).await.map(Arc::new) };
        let config = self.0.get_or_try_init(read).await;
        config.cloned().map_err(|stopped| CallError::new(CallErrorKind::Tls, &stopped))
    }
}

/// The system's root certificates. Without any, as in a bare container, every https endpoint is refused.
fn system() -> ClientConfig {
    let trusting = builder().with_native_roots().unwrap_or_else(|error| {
        tracing::error!(%error, "no root certificates found, https endpoints are refused");
        builder().with_root_certificates(RootCertStore::empty())
    });
    trusting.with_no_client_auth()
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
}

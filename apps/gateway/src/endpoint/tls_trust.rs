//! TLS to endpoints: whom to trust, and who we are.

use std::{fmt, sync::Arc};

use bezoar::Invalid;
use hyper_rustls::ConfigBuilderExt;
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{sync::OnceCell, task::spawn_blocking};

use super::{CallError, CallErrorKind};

/// Whom to trust, and the client certificate. By default the system's root certificates, and none.
#[derive(Clone, Default)]
pub struct TlsOptions {
    roots: Option<RootCertStore>,
    identity: Option<Arc<ClientIdentity>>,
}

/// A client certificate with its chain and its key.
struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsOptions {
    /// Trusts these CA certificates, in PEM, and no others.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if there are none, or one is no certificate.
    pub fn trust_only(mut self, ca: &str) -> Result<Self, Invalid> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("tls_ca", ca)? {
            roots.add(certificate).map_err(|_| {
                Invalid::new("tls_ca", "has a certificate that is not valid for a CA")
            })?;
        }
        self.roots = Some(roots);
        Ok(self)
    }

    /// Presents this certificate, in PEM with its chain, which belongs to this key.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if one of them is not PEM, or they do not belong together.
    pub fn identify(mut self, certificate: &str, key: &str) -> Result<Self, Invalid> {
        let chain = certificates("tls_certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| Invalid::new("tls_key", "is not a private key in PEM"))?;
        let probe = builder().with_root_certificates(RootCertStore::empty());
        probe.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|_| {
            Invalid::new("tls_key", "is not supported, or does not belong to tls_certificate")
        })?;
        self.identity = Some(Arc::new(ClientIdentity { chain, key }));
        Ok(self)
    }

    /// Without root certificates, as in a bare container, every https endpoint is refused.
    fn config(&self) -> Result<ClientConfig, rustls::Error> {
        let trusting = match &self.roots {
            Some(roots) => builder().with_root_certificates(roots.clone()),
            None => builder().with_native_roots().unwrap_or_else(|error| {
                tracing::error!(%error, "no root certificates found, https endpoints are refused");
                builder().with_root_certificates(RootCertStore::empty())
            }),
        };
        match &self.identity {
            Some(it) => trusting.with_client_auth_cert(it.chain.clone(), it.key.clone_key()),
            None => Ok(trusting.with_no_client_auth()),
        }
    }
}

/// Prints no key.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("own_roots", &self.roots.is_some())
            .field("client_certificate", &self.identity.is_some())
            .finish()
    }
}

fn certificates(name: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| Invalid::new(name, "has no certificate in PEM"))
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
}

/// The TLS configuration. The system's root certificates are loaded on first use: that takes a while, and a gateway
/// with plain http endpoints never needs them.
#[derive(Debug, Clone)]
pub(super) struct TlsTrust {
    options: TlsOptions,
    config: Arc<OnceCell<Arc<ClientConfig>>>,
}

impl TlsTrust {
    pub(super) fn new(options: TlsOptions) -> Self {
        Self { options, config: Arc::default() }
    }

    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, CallError> {
        let build = || async {
            let options = self.options.clone();
            let built = spawn_blocking(move || options.config()).await;
            let refused = |error: &(dyn std::error::Error + 'static)| {
                CallError::new(CallErrorKind::Tls, error)
            };
            match built {
                Ok(config) => config.map(Arc::new).map_err(|error| refused(&error)),
                Err(stopped) => Err(refused(&stopped)),
            }
        };
        self.config.get_or_try_init(build).await.cloned()
    }
}

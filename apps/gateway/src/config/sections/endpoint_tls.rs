//! `tls_ca`, `tls_certificate` and `tls_key` of an endpoint.

use bezoar::Invalid;

use crate::{
    config::{
        InvalidValue, Secret,
        reader::{Section, SectionReader},
    },
    endpoint::{EndpointUrl, TlsOptions},
};

/// The certificates and the key of an endpoint, in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointTls {
    ca: Option<Secret>,
    /// The certificate and its key.
    identity: Option<(Secret, Secret)>,
}

const KEYS: [&str; 3] = ["tls_ca", "tls_certificate", "tls_key"];

impl EndpointTls {
    pub(super) fn read(
        reader: &mut SectionReader<'_>,
        section: &Section<'_>,
        to: Option<&EndpointUrl>,
    ) -> Self {
        if let (Some(to), Some(key)) = (to, KEYS.into_iter().find(|key| section.has(key)))
            && !to.is_tls()
        {
            let problem = "has no effect without TLS";
            let invalid = InvalidValue::new(problem, "use https:// or mllps://, or remove it");
            reader.refuse(section, key, invalid);
        }
        let [ca, certificate, key] = KEYS.map(|key| reader.pem(section, key));
        if section.has("tls_certificate") != section.has("tls_key") {
            let remedy = "set both tls_certificate and tls_key, or neither";
            let problem = "requires tls_certificate, and the other way round";
            reader.refuse(section, "tls_key", InvalidValue::new(problem, remedy));
        }
        let tls = Self { ca, identity: certificate.zip(key) };
        match tls.checked() {
            Ok(_) => tls,
            Err(Invalid { field, problem, .. }) => {
                reader.refuse(section, field, InvalidValue::new(problem, "use PEM"));
                Self::default()
            }
        }
    }

    /// The options of a client for it; `None` if nothing is set.
    pub fn options(&self) -> Option<TlsOptions> {
        let is_set = *self != Self::default();
        is_set.then(|| self.checked().expect("was checked once when it was read"))
    }

    fn checked(&self) -> Result<TlsOptions, Invalid> {
        let mut options = TlsOptions::default();
        if let Some(ca) = &self.ca {
            options = options.trust_only(ca.reveal())?;
        }
        match &self.identity {
            Some((certificate, key)) => options.identify(certificate.reveal(), key.reveal()),
            None => Ok(options),
        }
    }
}

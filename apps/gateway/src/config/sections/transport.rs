//! `[transports.NAME]`: a broker.

use std::{path::PathBuf, time::Duration};

use crate::config::{
    InvalidValue, Name, Secret,
    names::choice,
    reader::{Section, SectionReader, Warn},
    secret_url::SecretUrl,
};

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportConfig {
    /// The prefix of its queues.
    pub name: Name,
    /// Its URL, with user and password.
    pub url: Secret,
    /// The URL of its HTTP API, with user and password.
    pub management_url: Option<Secret>,
    /// CA certificates to trust for the HTTP API.
    pub management_ca: Option<PathBuf>,
    /// The type of the queues that are created.
    pub queue_type: QueueKind,
    /// Whether missing queues, exchanges and bindings are created.
    pub provision: bool,
    /// The longest delay before a retry.
    pub max_delay: Duration,
    /// CA certificates to trust.
    pub tls_ca: Option<PathBuf>,
    /// The client certificate.
    pub tls_certificate: Option<PathBuf>,
    /// The private key of the client certificate.
    pub tls_key: Option<PathBuf>,
}

choice! {
    /// The type of the queues that are created.
    QueueKind {
        /// Replicated, with at-least-once dead-lettering.
        Quorum = "quorum",
        /// On one node.
        Classic = "classic",
    }
}

impl TransportConfig {
    pub(in crate::config) fn read_all(
        reader: &mut SectionReader<'_>,
        root: &Section<'_>,
    ) -> Vec<Self> {
        let named = root.named("transports").into_iter();
        named.filter_map(|(name, section)| Self::read(reader, name, root, &section)).collect()
    }

    fn read(
        reader: &mut SectionReader<'_>,
        name: &str,
        root: &Section<'_>,
        section: &Section<'_>,
    ) -> Option<Self> {
        let name = Name::new(name)
            .map_err(|invalid| reader.refuse(&root.table("transports"), name, invalid));
        let (url, management_url) = urls(reader, section);
        let transport = Self {
            name: name.ok()?,
            url: url?,
            management_url,
            management_ca: reader.optional(section, "management_ca"),
            queue_type: reader.or_default(section, "queue_type"),
            provision: reader.or_default(section, "provision"),
            max_delay: reader.or_default(section, "max_delay"),
            tls_ca: reader.optional(section, "tls_ca"),
            tls_certificate: reader.optional(section, "tls_certificate"),
            tls_key: reader.optional(section, "tls_key"),
        };
        if transport.tls_certificate.is_some() != transport.tls_key.is_some() {
            let remedy = "set both tls_certificate and tls_key, or neither";
            reader.refuse(
                section,
                "tls_key",
                InvalidValue::new("requires tls_certificate, and the other way round", remedy),
            );
        }
        Some(transport)
    }
}

/// Both URLs, with user and password in them.
fn urls(reader: &mut SectionReader<'_>, section: &Section<'_>) -> (Option<Secret>, Option<Secret>) {
    let user: Option<Name> = reader.optional(section, "user");
    let user = user.as_ref().map(Name::as_str);
    let password = match section.has("password") {
        true => reader.secret(section, "password"),
        false => None,
    };
    let password = password.as_ref().map(Secret::reveal);
    let amqp = url(reader, section, "url", &["amqp", "amqps"]).map(|url| url.or(user, password));
    let http = match section.has("management_url") {
        true => url(reader, section, "management_url", &["http", "https"]),
        false => None,
    };
    let http = http.map(|http| match &amqp {
        Some(amqp) => http.or(user, password).or_as(amqp),
        None => http,
    });
    (amqp.map(|url| url.written()), http.map(|url| url.written()))
}

fn url(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    name: &str,
    schemes: &[&str],
) -> Option<SecretUrl> {
    let Some(node) = section.node(name) else {
        return reader.secret(section, name).and(None); // reports that it is missing
    };
    let read = |secret: &Secret| SecretUrl::parse(secret.reveal(), schemes);
    let warn = match &node.value {
        crate::config::tree::Value::Text(text)
            if SecretUrl::parse(text, schemes).is_ok_and(|url| !url.has_password()) =>
        {
            Warn::Never
        }
        _ => Warn::Always,
    };
    let shown = |secret: &Secret| read(secret).map_or_else(|_| "***".to_owned(), |url| url.shown());
    let secret = reader.resolved_as(&section.path.key(name), node, warn, shown)?;
    read(&secret).map_err(|invalid| reader.refuse(section, name, invalid)).ok()
}

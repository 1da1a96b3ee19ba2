//! The one list of transports, and how each is opened from a URL.

use std::sync::Arc;

use bezoar_core::{ErrorKind, Invalid, TransportError};
use bezoar_memory::MemoryTransport;

use crate::Bezoar;

/// A transport that [`connect`](crate::connect) knows. Add one here, with its feature.
struct Driver {
    /// The schemes of its URLs.
    schemes: &'static [&'static str],
    /// A URL as people write it.
    example: &'static str,
    /// The feature that compiles it in; empty if it always is.
    feature: &'static str,
    /// How it is opened; `None` if its feature is off.
    open: Option<Open>,
}

/// Opens the queues behind a URL. It may block: it runs on a thread of its own.
type Open = fn(&str) -> Result<Bezoar, TransportError>;

/// A driver that is compiled in with `feature`.
macro_rules! driver {
    ($feature:literal, $example:literal, $schemes:expr, $open:expr) => {
        Driver {
            schemes: &$schemes,
            example: $example,
            feature: $feature,
            #[cfg(feature = $feature)]
            open: Some($open),
            #[cfg(not(feature = $feature))]
            open: None,
        }
    };
}

const DRIVERS: &[Driver] = &[
    driver!("sqlite", "sqlite:PATH", ["sqlite"], sqlite),
    driver!("postgres", "postgres://USER@HOST/DATABASE", ["postgres", "postgresql"], postgres),
    driver!("rabbitmq", "amqp://HOST", ["amqp", "amqps"], rabbitmq),
    driver!("azure", "azurequeue:CONNECTION_STRING", ["azurequeue"], azure),
    Driver { schemes: &["memory"], example: "memory:", feature: "", open: Some(memory) },
];

#[cfg(feature = "sqlite")]
fn sqlite(url: &str) -> Result<Bezoar, TransportError> {
    let options = bezoar_sqlite::Options::from_url(url).map_err(invalid)?;
    let opened = bezoar_sqlite::SqliteTransport::open(options)?;
    Ok(Bezoar::new(opened.clone()).with_catalogue(Arc::new(opened)))
}

/// Connects on first use.
#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Result<Bezoar, TransportError> {
    let options = bezoar_postgres::Options::from_url(url).map_err(invalid)?;
    let opened = bezoar_postgres::PostgresTransport::open(options)?;
    Ok(Bezoar::new(opened.clone()).with_catalogue(Arc::new(opened)))
}

#[cfg(feature = "rabbitmq")]
fn rabbitmq(url: &str) -> Result<Bezoar, TransportError> {
    let options = bezoar_rabbitmq::Options::from_url(url).map_err(invalid)?;
    Ok(Bezoar::new(bezoar_rabbitmq::RabbitTransport::open(options)?))
}

/// As Microsoft's own tools do, takes the connection string from the environment if the URL has none.
#[cfg(feature = "azure")]
fn azure(url: &str) -> Result<Bezoar, TransportError> {
    const VARIABLE: &str = "AZURE_STORAGE_CONNECTION_STRING";
    let text = match url.split_once(':') {
        Some((_, text)) if !text.is_empty() => text.to_owned(),
        _ => std::env::var(VARIABLE).map_err(|_| {
            invalid(Invalid::new(
                "url",
                format!("has no connection string, and {VARIABLE} is not set"),
            ))
        })?,
    };
    let account = text.parse().map_err(invalid)?;
    let opened = bezoar_azure::AzureTransport::open(bezoar_azure::Options::new(account));
    let opened = opened.map_err(|all| invalid(Invalid::new("options", all.to_string())))?;
    Ok(Bezoar::new(opened))
}

fn memory(_: &str) -> Result<Bezoar, TransportError> {
    Ok(Bezoar::new(MemoryTransport::default()))
}

/// Opens the queues behind `url` with the driver for its scheme.
pub(crate) async fn open(url: &str) -> Result<Bezoar, TransportError> {
    let open = find(url, DRIVERS).map_err(invalid)?;
    let url = url.to_owned();
    let opened = tokio::task::spawn_blocking(move || open(&url));
    opened.await.map_err(|source| {
        TransportError::new(ErrorKind::Other, "bezoar", "connect").with_source(source)
    })?
}

/// How to open `url`; otherwise what could be opened, and which feature would have to be on. The URL is not
/// repeated, because it may contain a password.
fn find(url: &str, drivers: &[Driver]) -> Result<Open, Invalid> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match drivers.iter().find(|driver| driver.schemes.contains(&scheme)) {
        Some(Driver { open: Some(open), .. }) => Ok(*open),
        Some(Driver { feature, .. }) => {
            let problem =
                format!("has the scheme {scheme}, which needs the feature {feature} of bezoar");
            Err(Invalid::new("url", problem))
        }
        None => {
            let known = drivers.iter().filter(|driver| driver.open.is_some());
            let known: Vec<_> = known.map(|driver| driver.example).collect();
            Err(Invalid::new("url", format!("has an unknown scheme, use {}", known.join(", "))))
        }
    }
}

pub(crate) fn invalid(invalid: Invalid) -> TransportError {
    TransportError::new(ErrorKind::Invalid(invalid), "bezoar", "connect")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> String {
        let off = Driver { schemes: &["azure"], example: "azure:", feature: "azure", open: None };
        let on =
            Driver { schemes: &["memory"], example: "memory:", feature: "", open: Some(memory) };
        find(url, &[off, on]).err().map(|invalid| invalid.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_unknown_scheme_is_answered_with_what_is_compiled_in() {
        assert_eq!(problem("memory:"), "");
        let unknown = "url has an unknown scheme, use memory:";
        assert_eq!(problem("kafka://CANARY@host"), unknown);
        assert_eq!(problem("CANARY"), unknown);
    }

    #[test]
    fn a_scheme_whose_feature_is_off_is_answered_with_the_feature() {
        assert_eq!(
            problem("azure:x"),
            "url has the scheme azure, which needs the feature azure of bezoar"
        );
    }

    #[cfg(feature = "azure")]
    #[test]
    fn an_account_of_azure_is_opened_with_a_key_or_a_token() {
        let problem = |url: &str| azure(url).err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(problem("azurequeue:UseDevelopmentStorage=true"), "");
        assert_eq!(problem("azurequeue:AccountName=lab;Credential=managed-identity"), "");
        let unknown = problem("azurequeue:AccountName=lab;Credential=CANARY");
        assert!(unknown.contains("credential is unknown; use managed-identity"), "{unknown}");
        let missing = problem("azurequeue:AccountName=lab;Credential=client-secret;ClientId=c");
        assert!(missing.contains("needs TenantId"), "{missing}");
        assert!(
            missing.contains("ClientSecret (or the variable AZURE_CLIENT_SECRET)"),
            "{missing}"
        );
    }

    #[test]
    fn no_scheme_is_in_the_list_twice() {
        let mut schemes: Vec<_> = DRIVERS.iter().flat_map(|driver| driver.schemes).collect();
        let count = schemes.len();
        schemes.sort();
        schemes.dedup();
        assert_eq!(schemes.len(), count);
    }
}

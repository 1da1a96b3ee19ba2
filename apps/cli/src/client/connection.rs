//! Which gateway to talk to, and with which token.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context as _, Result};
use clap::error::ErrorKind;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::{
    ApiClient, Url, UrlSource,
    token::{self, TokenSource},
};
use crate::up::Configuration;

/// How to reach a running gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// URL of the gateway [default: the address in bezoar.toml, or http://127.0.0.1:8420]
    // Both values are hidden and the URL is parsed later, because clap prints the values it is given.
    #[arg(
        long,
        env = "BEZOAR_URL",
        global = true,
        hide_env_values = true,
        help_heading = "Connection"
    )]
    url: Option<String>,
    /// API token; prefer BEZOAR_TOKEN, because other users of this machine can see arguments
    /// [default: the token of the gateway that was started in this folder]
    #[arg(
        long,
        env = "BEZOAR_TOKEN",
        global = true,
        hide_env_values = true,
        value_parser = secret,
        help_heading = "Connection"
    )]
    token: Option<SecretString>,
}

impl Connection {
    /// A connection to this gateway with this token.
    pub(crate) fn new(url: String, token: SecretString) -> Self {
        Self { url: Some(url), token: Some(token) }
    }

    /// The connection of a command without flags.
    pub(crate) fn of_environment() -> Self {
        let token = std::env::var("BEZOAR_TOKEN").ok().map(Into::into);
        Self { url: std::env::var("BEZOAR_URL").ok(), token }
    }

    /// Whether a gateway was specified.
    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some()
    }

    /// A client for it. Exits with the usage error code if the URL is invalid. The configuration in this folder is not
    /// needed if URL and token are given.
    pub(crate) fn client(&self) -> Result<ApiClient> {
        let local = match Configuration::of_this_folder() {
            Err(problem) if self.url.is_none() => return Err(problem),
            found => found.ok(),
        };
        let listen = local.as_ref().map(|local| address_of(local.server.listen));
        let url = self.url.clone().or(listen).unwrap_or_default();
        let url: Url = url.parse().unwrap_or_else(|problem| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("--url {problem}\n")).exit()
        });
        let folder = local.as_ref().map(|local| local.store.folder());
        let folder = folder.and_then(|folder| folder_for(&url, folder));
        let token = self.token(folder)?;
        let source = self.token_source(token.as_ref(), folder);
        let token = token.map(|token| bearer(&token)).transpose()?;
        ApiClient::new(url, token, (self.url_source(), source))
    }

    /// Where the URL that is used came from.
    fn url_source(&self) -> UrlSource {
        const LISTEN: &str = "BEZOAR_SERVER__LISTEN";
        let given = self.url.as_ref();
        match Configuration::file_of_this_folder() {
            _ if given.is_some_and(|url| std::env::var("BEZOAR_URL").as_ref() == Ok(url)) => {
                UrlSource::Environment("BEZOAR_URL")
            }
            _ if given.is_some() => UrlSource::Flag,
            _ if std::env::var_os(LISTEN).is_some() => UrlSource::Environment(LISTEN),
            Some(file) => UrlSource::File(file),
            None => UrlSource::Default,
        }
    }

    /// Where the token that is used came from.
    fn token_source(&self, used: Option<&SecretString>, folder: Option<&Path>) -> TokenSource {
        let given = self.token.as_ref().map(|token| token.expose_secret());
        match used.map(|token| token.expose_secret()) {
            None => TokenSource::Nowhere { missing: folder.map(token::file) },
            Some(used) if given != Some(used) => {
                TokenSource::File(token::file(folder.unwrap_or(Path::new(""))))
            }
            Some(used) if std::env::var("BEZOAR_TOKEN").is_ok_and(|token| token == used) => {
                TokenSource::Environment
            }
            Some(_) => TokenSource::Flag,
        }
    }

    /// The given token, or the one that the gateway of this folder keeps beside its database.
    fn token(&self, folder: Option<&Path>) -> Result<Option<SecretString>> {
        match (&self.token, folder) {
            (Some(token), _) if !token.expose_secret().trim().is_empty() => Ok(Some(token.clone())),
            (_, Some(folder)) => token::find(folder),
            _ => Ok(None),
        }
    }
}

/// The URL of a gateway on this machine that listens there; one that listens everywhere also does on loopback.
fn address_of(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

/// The folder of the token for a URL: a local gateway's token is never sent to another machine.
fn folder_for<'a>(url: &Url, folder: &'a Path) -> Option<&'a Path> {
    url.is_loopback().then_some(folder)
}

fn secret(text: &str) -> Result<SecretString, Infallible> {
    Ok(text.into())
}

fn bearer(token: &SecretString) -> Result<HeaderValue> {
    let text = format!("Bearer {}", token.expose_secret().trim());
    let mut value = HeaderValue::from_str(&text)
        .ok()
        .context("the token contains characters that are not allowed in a header")?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn connection(token: Option<&str>) -> Connection {
        Connection { url: Some("given".to_owned()), token: token.map(Into::into) }
    }

    #[test]
    fn a_gateway_that_listens_everywhere_is_reached_on_loopback() {
        for (listen, url) in [
            ("127.0.0.1:8420", "http://127.0.0.1:8420"),
            ("0.0.0.0:9000", "http://127.0.0.1:9000"),
            ("[::]:9000", "http://[::1]:9000"),
            ("10.0.0.1:1", "http://10.0.0.1:1"),
        ] {
            assert_eq!(address_of(listen.parse().unwrap()), url);
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        let connection = connection(Some("bzr_CANARY"));
        assert!(!format!("{connection:?}").contains("CANARY"));
        let bearer = bearer(&"bzr_CANARY".into()).unwrap();
        assert!(!format!("{bearer:?}").contains("CANARY"));
        let error = super::bearer(&"CANARY\u{7}".into()).unwrap_err();
        assert!(!format!("{error:?}").contains("CANARY"));
    }

    #[test]
    fn the_token_of_this_folder_stays_on_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "bzr_found").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let shown = |given, url: &str| {
            let token = connection(given).token(folder_for(&url.parse().unwrap(), folder.path()));
            token.unwrap().map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(shown(None, "http://localhost:8420").as_deref(), Some("bzr_found"));
        assert_eq!(shown(Some(" "), "http://[::1]:8420").as_deref(), Some("bzr_found"));
        assert_eq!(shown(Some("given"), "http://localhost:8420").as_deref(), Some("given"));
        assert_eq!(shown(Some("given"), "https://queues.example.org").as_deref(), Some("given"));
        assert_eq!(shown(None, "https://queues.example.org"), None);
    }
}

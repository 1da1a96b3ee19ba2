//! A storage account: the endpoint of its queues, and the credential.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use azure_core::{credentials::TokenCredential, http::Url};
use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::Invalid;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::identity::Identity;

/// A storage account. `Debug` shows the endpoint, never a key or signature.
#[derive(Clone)]
pub struct Account {
    pub(crate) endpoint: Url,
    /// The endpoint of Blob Storage, for the claim check.
    pub(crate) blob_endpoint: Option<Url>,
    pub(crate) credential: Credential,
}

#[derive(Clone)]
pub(crate) enum Credential {
    /// The account's name and key.
    SharedKey { account: String, key: SecretSlice<u8> },
    /// The query of a shared access signature.
    Sas(SecretString),
    /// Tokens of Entra ID, from a credential of the caller.
    Token(Arc<dyn TokenCredential>),
    /// Tokens of Entra ID for an identity.
    Identity(Identity),
}

impl Account {
    /// Parses a connection string, as the Azure portal shows it: with `AccountName` and `AccountKey`, or with
    /// `SharedAccessSignature`, and `QueueEndpoint` or `EndpointSuffix`. `UseDevelopmentStorage=true` is an emulator
    /// on its usual port.
    ///
    /// With `Credential=` `managed-identity`, `workload-identity`, `client-secret` or `azure-cli` in place of a key, Entra
    /// ID is asked for tokens; see [`Identity`]. `TenantId`, `ClientId`, `ClientSecret` and `TokenFile` may be left to
    /// the environment variables `AZURE_TENANT_ID`, `AZURE_CLIENT_ID`, `AZURE_CLIENT_SECRET` and
    /// `AZURE_FEDERATED_TOKEN_FILE`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names what is missing or wrong. It never repeats a value.
    pub fn from_connection_string(text: &str) -> Result<Self, Invalid> {
        Self::parse(text, |variable| std::env::var(variable).ok())
    }

    fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Invalid> {
        let settings = Settings::parse(text)?;
        if settings.get("usedevelopmentstorage").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return Self::emulator(settings.get("developmentstorageproxyuri"));
        }
        let credential = settings.credential(variable)?;
        let endpoint = settings.endpoint("queue", "queueendpoint")?;
        let blob_endpoint = match settings.endpoint("blob", "blobendpoint") {
            Err(invalid) if settings.get("blobendpoint").is_some() => return Err(invalid),
            endpoint => endpoint.ok(),
        };
        match credential {
            Credential::Identity(_) => Self::with_tokens(endpoint, blob_endpoint, credential),
            _ => Ok(Self { endpoint, blob_endpoint, credential }),
        }
    }

    /// The account whose queues are at `endpoint`, with tokens of Entra ID for an identity.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `endpoint` is not an `https` URL. A token must not be sent unencrypted.
    pub fn with_identity(endpoint: &str, identity: Identity) -> Result<Self, Invalid> {
        Self::with_tokens(parse_endpoint(endpoint)?, None, Credential::Identity(identity))
    }

    /// The account whose queues are at `endpoint`, with a credential of the caller that gets tokens of Entra ID.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `endpoint` is not an `https` URL. A token must not be sent unencrypted.
    pub fn with_token(
        endpoint: &str,
        credential: Arc<dyn TokenCredential>,
    ) -> Result<Self, Invalid> {
        Self::with_tokens(parse_endpoint(endpoint)?, None, Credential::Token(credential))
    }

    fn with_tokens(
        endpoint: Url,
        blob_endpoint: Option<Url>,
        credential: Credential,
    ) -> Result<Self, Invalid> {
        let blob_endpoint = blob_endpoint.or_else(|| beside(&endpoint));
        if [Some(&endpoint), blob_endpoint.as_ref()].into_iter().flatten().any(is_plain) {
            return Err(Invalid::new("endpoint", "must begin with https:// if a token is used"));
        }
        Ok(Self { endpoint, blob_endpoint, credential })
    }

    fn emulator(proxy: Option<&str>) -> Result<Self, Invalid> {
        // Published by Microsoft and the same in every emulator, so not a secret.
        const ACCOUNT: &str = "devstoreaccount1";
        const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        let host = proxy.unwrap_or("http://127.0.0.1").trim_end_matches('/');
        Ok(Self {
            endpoint: parse_endpoint(&format!("{host}:10001/{ACCOUNT}"))?,
            blob_endpoint: Some(parse_endpoint(&format!("{host}:10000/{ACCOUNT}"))?),
            credential: shared_key(ACCOUNT, KEY)?,
        })
    }

    /// When the shared access signature expires, if it says so.
    pub(crate) fn sas_expiry(&self) -> Option<Timestamp> {
        let Credential::Sas(query) = &self.credential else { return None };
        let query = Url::parse(&format!("sas:?{}", query.expose_secret())).ok()?;
        let (_, end) = query.query_pairs().find(|(name, _)| name == "se")?;
        let date = || end.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
        end.parse().ok().or_else(|| date().map(|it| it.timestamp()))
    }
}

impl FromStr for Account {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::from_connection_string(text)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credential = match &self.credential {
            Credential::SharedKey { .. } => "account key",
            Credential::Sas(_) => "shared access signature",
            Credential::Token(_) | Credential::Identity(_) => "token",
        };
        write!(f, "Account({}, {credential})", self.endpoint)
    }
}

/// The settings of a connection string by lowercase name.
struct Settings<'a>(BTreeMap<String, &'a str>);

impl<'a> Settings<'a> {
    fn parse(text: &'a str) -> Result<Self, Invalid> {
        let pairs = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let pair = |part: &'a str| {
            let (name, value) = part.split_once('=')?;
            Some((name.trim().to_ascii_lowercase(), value.trim()))
        };
        let settings: Option<BTreeMap<_, _>> = pairs.map(pair).collect();
        match settings {
            Some(settings) if !settings.is_empty() => Ok(Self(settings)),
            _ => Err(invalid("is not a list of name=value, separated by semicolons")),
        }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied().filter(|value| !value.is_empty())
    }

    fn credential(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Credential, Invalid> {
        let secrets = ["accountkey", "sharedaccesssignature"].map(|name| self.get(name));
        match (self.get("credential"), secrets) {
            (Some(kind), [None, None]) => {
                let find = |name: &str, or: &str| {
                    let found = self.get(&name.to_ascii_lowercase()).map(ToOwned::to_owned);
                    found.or_else(|| variable(or).filter(|it| !it.is_empty()))
                };
                Identity::of_kind(kind, find).map(Credential::Identity)
            }
            (Some(_), _) => Err(invalid("has both Credential and a key or signature; use one")),
            (None, [key, sas]) => self.secret(key, sas),
        }
    }

    fn secret(&self, key: Option<&str>, sas: Option<&str>) -> Result<Credential, Invalid> {
        match (self.get("accountname"), key, sas) {
            (Some(account), Some(key), _) => shared_key(account, key),
            (_, None, Some(sas)) => Ok(Credential::Sas(sas.trim_start_matches('?').into())),
            (None, Some(_), _) => Err(invalid("has no AccountName")),
            _ => Err(invalid("has no AccountKey, SharedAccessSignature or Credential")),
        }
    }

    /// The endpoint of `service`, which the setting `name` may give.
    fn endpoint(&self, service: &str, name: &str) -> Result<Url, Invalid> {
        if let Some(endpoint) = self.get(name) {
            return parse_endpoint(endpoint);
        }
        let account = self.get("accountname");
        let account =
            account.ok_or_else(|| invalid("has neither QueueEndpoint nor AccountName"))?;
        let protocol = self.get("defaultendpointsprotocol").unwrap_or("https");
        let suffix = self.get("endpointsuffix").unwrap_or("core.windows.net");
        parse_endpoint(&format!("{protocol}://{account}.{service}.{suffix}"))
    }
}

fn shared_key(account: &str, key: &str) -> Result<Credential, Invalid> {
    let key =
        BASE64_STANDARD.decode(key).map_err(|_| invalid("has an AccountKey that is not base64"))?;
    Ok(Credential::SharedKey { account: account.to_owned(), key: key.into() })
}

fn parse_endpoint(text: &str) -> Result<Url, Invalid> {
    let refused =
        || Invalid::new("endpoint", "is not an http:// or https:// URL without query and user");
    let url = Url::parse(text).map_err(|_| refused())?;
    let plain = url.query().is_none() && url.username().is_empty() && url.password().is_none();
    let http = matches!(url.scheme(), "http" | "https") && url.has_host();
    if plain && http { Ok(url) } else { Err(refused()) }
}

/// The endpoint of the blobs beside queues in Azure.
fn beside(queues: &Url) -> Option<Url> {
    let host = queues.host_str().filter(|host| host.contains(".queue."))?;
    let mut blobs = queues.clone();
    blobs.set_host(Some(&host.replacen(".queue.", ".blob.", 1))).ok()?;
    Some(blobs)
}

fn is_plain(endpoint: &Url) -> bool {
    endpoint.scheme() != "https"
}

fn invalid(problem: &str) -> Invalid {
    Invalid::new("connection string", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "Q0FOQVJZ"; // CANARY

    fn endpoint(text: &str) -> String {
        Account::from_connection_string(text).unwrap().endpoint.to_string()
    }

    #[test]
    fn endpoints_come_from_names_suffixes_or_themselves() {
        let key = format!("AccountName=lab;AccountKey={KEY}");
        assert_eq!(endpoint(&key), "https://lab.queue.core.windows.net/");
        let china =
            format!("{key};EndpointSuffix=core.chinacloudapi.cn;DefaultEndpointsProtocol=http;");
        assert_eq!(endpoint(&china), "http://lab.queue.core.chinacloudapi.cn/");
        let own = format!("{key};QueueEndpoint=http://127.0.0.1:10001/lab");
        assert_eq!(endpoint(&own), "http://127.0.0.1:10001/lab");
        let sas = "QueueEndpoint=https://lab.example/;SharedAccessSignature=?sv=1&sig=CANARY%3D";
        assert_eq!(endpoint(sas), "https://lab.example/");
        assert_eq!(
            endpoint(" usedevelopmentstorage = TRUE ;"),
            "http://127.0.0.1:10001/devstoreaccount1"
        );
        let proxy = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite";
        assert_eq!(endpoint(proxy), "http://azurite:10001/devstoreaccount1");
    }

    #[test]
    fn a_wrong_connection_string_is_refused_and_never_repeated() {
        for (text, problem) in [
            ("", "name=value"),
            ("CANARY", "name=value"),
            ("AccountName=CANARY", "no AccountKey, SharedAccessSignature or Credential"),
            ("AccountName=a;Credential=CANARY", "use managed-identity"),
            ("AccountName=a;AccountKey=CANARY;Credential=azure-cli", "use one"),
            ("QueueEndpoint=http://CANARY/;Credential=azure-cli", "must begin with https://"),
            ("AccountKey=CANARY", "has no AccountName"),
            ("AccountName=a;AccountKey=CANARY!", "not base64"),
            ("SharedAccessSignature=sig=CANARY", "neither QueueEndpoint nor AccountName"),
            ("QueueEndpoint=ftp://CANARY;SharedAccessSignature=s", "http:// or https://"),
            ("QueueEndpoint=https://a/?sig=CANARY;SharedAccessSignature=s", "without query"),
            (
                "QueueEndpoint=https://me:CANARY@a/;SharedAccessSignature=s",
                "without query and user",
            ),
        ] {
            let refused = Account::from_connection_string(text).unwrap_err().to_string();
            assert!(refused.contains(problem), "{text}: {refused}");
            assert!(!refused.contains("CANARY"), "{refused}");
        }
    }

    #[test]
    fn debug_shows_no_key_and_no_signature() {
        for secret in [
            format!("AccountName=lab;AccountKey={KEY}"),
            "AccountName=lab;SharedAccessSignature=sv=1&sig=CANARY".to_owned(),
        ] {
            let shown = format!("{:?}", Account::from_connection_string(&secret).unwrap());
            assert!(shown.contains("lab.queue.core.windows.net"), "{shown}");
            assert!(!shown.contains("CANARY") && !shown.contains(KEY), "{shown}");
        }
    }

    #[derive(Debug)]
    struct NoToken;

    #[async_trait::async_trait]
    impl TokenCredential for NoToken {
        async fn get_token(
            &self,
            _: &[&str],
            _: Option<azure_core::credentials::TokenRequestOptions<'_>>,
        ) -> azure_core::Result<azure_core::credentials::AccessToken> {
            Err(azure_core::error::ErrorKind::Credential.into_error())
        }
    }

    #[test]
    fn a_token_is_never_sent_unencrypted() {
        let account = |endpoint| Account::with_token(endpoint, Arc::new(NoToken));
        assert!(account("https://lab.queue.core.windows.net").is_ok());
        let refused = account("http://lab.queue.core.windows.net").unwrap_err().to_string();
        assert!(refused.contains("https://"), "{refused}");
    }

    #[test]
    fn a_connection_string_can_name_an_identity() {
        let variable = |name: &str| (name == "AZURE_CLIENT_ID").then(|| "client".to_owned());
        let account = Account::parse("AccountName=lab;Credential=managed-identity", variable);
        let account = account.unwrap();
        assert_eq!(account.endpoint.as_str(), "https://lab.queue.core.windows.net/");
        let blobs = account.blob_endpoint.unwrap();
        assert_eq!(blobs.as_str(), "https://lab.blob.core.windows.net/");
        let Credential::Identity(Identity::ManagedIdentity { client_id }) = account.credential
        else {
            panic!("not a managed identity");
        };
        assert_eq!(client_id.unwrap(), "client");
        let endpoint = "https://lab.queue.core.windows.net";
        let text = format!("QueueEndpoint={endpoint};Credential=azure-cli;TenantId=tenant");
        let account = Account::parse(&text, |_| None).unwrap();
        assert!(account.blob_endpoint.is_some(), "beside the queues");
    }

    #[test]
    fn the_expiry_of_a_signature_is_read() {
        let expiry = |sas: &str| {
            let text = format!("AccountName=lab;SharedAccessSignature={sas}");
            Account::from_connection_string(&text).unwrap().sas_expiry().map(|it| it.to_string())
        };
        assert_eq!(expiry("se=2026-01-02T03%3A04%3A05Z&sig=x").unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(expiry("se=2026-01-02&sig=x").unwrap(), "2026-01-02T00:00:00Z");
        assert_eq!(expiry("si=policy&sig=x"), None);
    }
}

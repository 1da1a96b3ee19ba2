//! The account of a transport: a connection string, or an endpoint with a signature or a credential of Entra ID.

use std::path::PathBuf;

use bezoar::azure::Account;

use crate::config::{
    InvalidValue, Name, Secret,
    names::choice,
    reader::{Section, SectionReader, Warn},
};

/// An account. Two are the same if the connection strings are that they are written as.
#[derive(Debug, Clone)]
pub struct AccountConfig {
    account: Account,
    written: Secret,
}

impl PartialEq for AccountConfig {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for AccountConfig {}

choice! {
    /// How to sign in to Entra ID.
    CredentialKind {
        /// The managed identity of the machine, app or container.
        ManagedIdentity = "managed-identity",
        /// The workload identity of a service account in Kubernetes.
        WorkloadIdentity = "workload-identity",
        /// A service principal with a secret.
        ClientSecret = "client-secret",
        /// Whoever is signed in with the Azure CLI.
        AzureCli = "azure-cli",
    }
}

/// The keys that belong to `account`.
const OF_ACCOUNT: [&str; 6] =
    ["credential", "tenant_id", "client_id", "client_secret", "token_file", "sas"];

impl AccountConfig {
    /// The account of an emulator on this machine.
    pub(super) fn emulator() -> Self {
        let text = Secret::new("UseDevelopmentStorage=true".to_owned()).expect("it is plain text");
        Self::new(text).expect("it is a connection string")
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    fn new(written: Secret) -> Result<Self, String> {
        let account = Account::from_connection_string(written.reveal());
        let account = account.map_err(|invalid| invalid.to_string())?;
        Ok(Self { account, written })
    }

    pub(super) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<Self> {
        match (section.has("connection_string"), section.has("account")) {
            (true, false) => {
                let alone = refuse_beside(reader, section, &OF_ACCOUNT);
                let written = reader.secret(section, "connection_string")?;
                refused(reader, section, "connection_string", Self::new(written)).filter(|_| alone)
            }
            (true, true) => {
                let invalid = InvalidValue::new("is set beside connection_string", "remove one");
                reader.refuse(section, "account", invalid);
                None
            }
            (false, true) => Self::of_endpoint(reader, section),
            (false, false) => {
                let remedy =
                    "set connection_string = \"env:NAME\", or account with credential or sas";
                let invalid = InvalidValue::new("is missing", remedy);
                reader.refuse(section, "connection_string", invalid);
                None
            }
        }
    }

    fn of_endpoint(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<Self> {
        let endpoint = endpoint(reader, section);
        match (section.has("sas"), section.has("credential")) {
            (true, false) => {
                let sas = reader.secret(section, "sas")?;
                let sas = sas.reveal().trim_start_matches('?').to_owned();
                let parts = vec![("SharedAccessSignature", sas)];
                refused(reader, section, "sas", connection_string(&endpoint?, parts))
            }
            (false, true) => {
                let kind: Option<CredentialKind> = reader.optional(section, "credential");
                let parts = credential_parts(reader, section)?;
                let kind = ("Credential", kind?.as_str().to_owned());
                let parts = [kind].into_iter().chain(parts).collect();
                refused(reader, section, "credential", connection_string(&endpoint?, parts))
            }
            (has_both, _) => {
                let problem = if has_both { "is set beside sas" } else { "is missing" };
                let remedy = "set either credential or sas";
                reader.refuse(section, "credential", InvalidValue::new(problem, remedy));
                None
            }
        }
    }
}

/// The endpoint, which is shown, because it has no secret in it: a query or a user is refused.
fn endpoint(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<String> {
    let path = section.path.key("account");
    let is_plain = |text: &str| !text.contains(['?', '@', ';', ' ']) && text.contains("://");
    let shown = |secret: &Secret| match is_plain(secret.reveal()) {
        true => secret.reveal().to_owned(),
        false => "***".to_owned(),
    };
    let endpoint = reader.resolved_as(&path, section.node("account")?, Warn::Never, shown)?;
    if is_plain(endpoint.reveal()) {
        return Some(endpoint.reveal().to_owned());
    }
    let remedy = "use https://ACCOUNT.queue.core.windows.net, and sas for a signature";
    reader.refuse(section, "account", InvalidValue::new("is not an endpoint", remedy));
    None
}

/// What is configured of the credential; the rest is taken from the variables of the environment.
fn credential_parts(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
) -> Option<Vec<(&'static str, String)>> {
    let name = |reader: &mut SectionReader<'_>, key| {
        let name: Option<Name> = reader.optional(section, key);
        name.map(|name| name.as_str().to_owned())
    };
    let (tenant, client) = (name(reader, "tenant_id"), name(reader, "client_id"));
    let file: Option<PathBuf> = reader.optional(section, "token_file");
    let secret = match section.has("client_secret") {
        true => Some(reader.secret(section, "client_secret")?.reveal().to_owned()),
        false => None,
    };
    let file = file.map(|file| file.display().to_string());
    let parts =
        [("TenantId", tenant), ("ClientId", client), ("ClientSecret", secret), ("TokenFile", file)];
    Some(parts.into_iter().filter_map(|(name, part)| Some((name, part?))).collect())
}

/// The account with these parts of a connection string.
fn connection_string(endpoint: &str, parts: Vec<(&str, String)>) -> Result<AccountConfig, String> {
    if parts.iter().any(|(_, part)| part.contains(';')) {
        return Err("contains a semicolon".to_owned());
    }
    let mut text = format!("QueueEndpoint={endpoint}");
    if endpoint.contains(".queue.") {
        text += &format!(";BlobEndpoint={}", endpoint.replacen(".queue.", ".blob.", 1));
    }
    for (name, part) in parts {
        text += &format!(";{name}={part}");
    }
    AccountConfig::new(Secret::new(text).map_err(|invalid| invalid.problem)?)
}

fn refused<T>(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    key: &str,
    result: Result<T, String>,
) -> Option<T> {
    let remedy = "correct it; it is not shown, because it may contain a secret";
    let refuse = |problem| {
        let invalid = InvalidValue::new(format!("cannot be used: {problem}"), remedy);
        reader.refuse(section, key, invalid);
    };
    result.map_err(refuse).ok()
}

/// Refuses keys that have no effect beside a connection string; returns whether there are none.
fn refuse_beside(reader: &mut SectionReader<'_>, section: &Section<'_>, keys: &[&str]) -> bool {
    let superfluous: Vec<_> = keys.iter().filter(|key| section.has(key)).collect();
    for key in &superfluous {
        let problem = "has no effect beside connection_string";
        reader.refuse(section, key, InvalidValue::new(problem, "remove one of them"));
    }
    superfluous.is_empty()
}

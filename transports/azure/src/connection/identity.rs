//! Tokens of Entra ID, from Microsoft's own crate.

use std::{path::PathBuf, sync::Arc};

use azure_core::{
    credentials::{Secret, TokenCredential},
    http::ClientOptions,
};
use azure_identity::{
    AzureCliCredential, AzureCliCredentialOptions, ClientAssertionCredentialOptions,
    ClientSecretCredential, ClientSecretCredentialOptions, ManagedIdentityCredential,
    ManagedIdentityCredentialOptions, UserAssignedId, WorkloadIdentityCredential,
    WorkloadIdentityCredentialOptions,
};
use bezoar_core::Invalid;
use secrecy::{ExposeSecret, SecretString};

/// Who signs in to Entra ID, and how. `Debug` shows no secret.
///
/// Tokens come from the public cloud, or from the authority in the environment variable `AZURE_AUTHORITY_HOST`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Identity {
    /// The managed identity of the machine, app or container.
    ManagedIdentity {
        /// The client id of a user-assigned identity. `None`: the system-assigned one.
        client_id: Option<String>,
    },
    /// A workload identity of Kubernetes.
    WorkloadIdentity {
        /// The tenant.
        tenant_id: String,
        /// The client id of the identity.
        client_id: String,
        /// The file with the token of the service account. It is read again before the token expires.
        token_file: PathBuf,
    },
    /// A service principal with a client secret.
    ClientSecret {
        /// The tenant.
        tenant_id: String,
        /// The client id of the service principal.
        client_id: String,
        /// The client secret.
        secret: SecretString,
    },
    /// The account that is signed in to the Azure CLI.
    AzureCli {
        /// The tenant. `None`: the default one of the Azure CLI.
        tenant_id: Option<String>,
    },
}

/// A part of an identity: its name in a connection string, and the environment variable that is used in its place.
type Part = (&'static str, &'static str);

const TENANT: Part = ("TenantId", "AZURE_TENANT_ID");
const CLIENT: Part = ("ClientId", "AZURE_CLIENT_ID");
const SECRET: Part = ("ClientSecret", "AZURE_CLIENT_SECRET");
const TOKEN_FILE: Part = ("TokenFile", "AZURE_FEDERATED_TOKEN_FILE");

impl Identity {
    /// The identity of a kind as a connection string names it, such as `managed-identity`. `find` looks up a part by its
    /// name in the connection string and by its environment variable.
    pub(crate) fn of_kind(
        kind: &str,
        find: impl Fn(&str, &str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        let find = |(name, variable): Part| find(name, variable);
        match kind {
            "managed-identity" => Ok(Self::ManagedIdentity { client_id: find(CLIENT) }),
            "workload-identity" => {
                let [tenant_id, client_id, token_file] =
                    needed(kind, [TENANT, CLIENT, TOKEN_FILE], find)?;
                Ok(Self::WorkloadIdentity { tenant_id, client_id, token_file: token_file.into() })
            }
            "client-secret" => {
                let [tenant_id, client_id, secret] = needed(kind, [TENANT, CLIENT, SECRET], find)?;
                Ok(Self::ClientSecret { tenant_id, client_id, secret: secret.into() })
            }
            "azure-cli" => Ok(Self::AzureCli { tenant_id: find(TENANT) }),
            _ => Err(invalid(
                "is unknown; use managed-identity, workload-identity, client-secret or azure-cli",
            )),
        }
    }

    /// What gets the tokens. Nothing is requested yet.
    pub(crate) fn credential(
        &self,
        client_options: ClientOptions,
    ) -> Result<Arc<dyn TokenCredential>, Invalid> {
        let built: azure_core::Result<Arc<dyn TokenCredential>> = match self.clone() {
            Self::ManagedIdentity { client_id } => {
                let user_assigned_id = client_id.map(UserAssignedId::ClientId);
                let options = ManagedIdentityCredentialOptions { user_assigned_id, client_options };
                ManagedIdentityCredential::new(Some(options)).map(|it| it as _)
            }
            Self::WorkloadIdentity { tenant_id, client_id, token_file } => {
                let options = WorkloadIdentityCredentialOptions {
                    credential_options: ClientAssertionCredentialOptions { client_options },
                    tenant_id: Some(tenant_id),
                    client_id: Some(client_id),
                    token_file_path: Some(token_file),
                };
                WorkloadIdentityCredential::new(Some(options)).map(|it| it as _)
            }
            Self::ClientSecret { tenant_id, client_id, secret } => {
                let secret = Secret::new(secret.expose_secret().to_owned());
                let options = Some(ClientSecretCredentialOptions { client_options });
                ClientSecretCredential::new(&tenant_id, client_id, secret, options)
                    .map(|it| it as _)
            }
            Self::AzureCli { tenant_id } => {
                let options = AzureCliCredentialOptions { tenant_id, ..Default::default() };
                AzureCliCredential::new(Some(options)).map(|it| it as _)
            }
        };
        built.map_err(|refused| invalid(&format!("cannot be used: {refused}")))
    }

    /// What to check if it gets no token.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::ManagedIdentity { .. } => {
                "check that this machine or app has the managed identity"
            }
            Self::WorkloadIdentity { .. } => {
                "check tenant, client id, and the federated credential of the service account"
            }
            Self::ClientSecret { .. } => "check tenant, client id and client secret",
            Self::AzureCli { .. } => "install the Azure CLI, and run `az login`",
        }
    }
}

/// All parts that an identity needs, or an error that names every missing one.
fn needed<const N: usize>(
    kind: &str,
    parts: [Part; N],
    find: impl Fn(Part) -> Option<String>,
) -> Result<[String; N], Invalid> {
    let found = parts.map(find);
    let missing = parts.iter().zip(&found).filter(|(_, found)| found.is_none());
    let missing: Vec<_> = missing
        .map(|((name, variable), _)| format!("{name} (or the variable {variable})"))
        .collect();
    match missing.is_empty() {
        true => Ok(found.map(Option::unwrap_or_default)),
        false => Err(invalid(&format!("{kind} needs {}", missing.join(", ")))),
    }
}

fn invalid(problem: &str) -> Invalid {
    Invalid::new("credential", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: &str, parts: &[&str]) -> Result<Identity, String> {
        let find = |name: &str, variable: &str| {
            let is_known = parts.contains(&name) || parts.contains(&variable);
            is_known.then(|| format!("CANARY-{name}"))
        };
        Identity::of_kind(kind, find).map_err(|refused| refused.to_string())
    }

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        assert_eq!(
            found("client-secret", &["ClientId"]).unwrap_err(),
            "credential client-secret needs TenantId (or the variable AZURE_TENANT_ID), \
             ClientSecret (or the variable AZURE_CLIENT_SECRET)"
        );
        assert_eq!(
            found("workload-identity", &["AZURE_TENANT_ID", "AZURE_CLIENT_ID"]).unwrap_err(),
            "credential workload-identity needs TokenFile (or the variable AZURE_FEDERATED_TOKEN_FILE)"
        );
        assert!(found("password", &[]).unwrap_err().contains("use managed-identity"));
    }

    #[test]
    fn parts_come_from_the_connection_string_or_the_environment() {
        assert!(matches!(
            found("managed-identity", &[]),
            Ok(Identity::ManagedIdentity { client_id: None })
        ));
        assert!(matches!(found("azure-cli", &[]), Ok(Identity::AzureCli { tenant_id: None })));
        let secret = found("client-secret", &["TenantId", "ClientId", "AZURE_CLIENT_SECRET"]);
        let shown = format!("{:?}", secret.unwrap());
        assert!(shown.contains("CANARY-TenantId"), "{shown}");
        assert!(!shown.contains("CANARY-ClientSecret"), "{shown}");
    }

    #[test]
    fn an_identity_that_cannot_be_used_says_why() {
        let (tenant_id, client_id) = ("tenant".to_owned(), "client".to_owned());
        let token_file = "/no/such/file".into();
        let identity = Identity::WorkloadIdentity { tenant_id, client_id, token_file };
        let refused = identity.credential(ClientOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("/no/such/file"), "{refused}");
    }
}

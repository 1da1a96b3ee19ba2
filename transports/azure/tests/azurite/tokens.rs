//! Tokens of Entra ID: each kind of credential, as a connection string names it.
//!
//! A test machine cannot reach the real Entra ID. A script stands in for it (`tests/node/entra.js`), and another for
//! the Azure CLI; Azurite accepts its tokens, and checks everything about them but the signature. So these tests show that
//! each credential is asked in the right way and that its token is sent; that Entra ID issues one remains to be tried.
//!
//! Microsoft's crate reads environment variables, and a test must not change those of its process. So each test runs
//! itself again, in a process of its own.

use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use bezoar_core::{ErrorKind, QueueAdmin, QueueName, Settlement, TransportError};
use tempfile::TempDir;
use test_support::{azurite::Azurite, certificates};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::support::{message, one, open, options_at, send, settle, subscribe};

const SECRET: &str = "CANARY-secret";
/// The connection string, in the process that uses it.
const ACCOUNT: &str = "BEZOAR_TEST_TOKEN_ACCOUNT";

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_client_secret_gets_tokens() {
    let credential = format!("client-secret;TenantId=tenant;ClientId=client;ClientSecret={SECRET}");
    check(&credential, |_, _| (), use_queues).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_workload_identity_gets_tokens() {
    let configure = |entra: &Entra, command: &mut Command| {
        let file = entra.folder.path().join("service-account-token");
        fs::write(&file, SECRET).unwrap();
        command.env("AZURE_TENANT_ID", "tenant").env("AZURE_CLIENT_ID", "client");
        command.env("AZURE_FEDERATED_TOKEN_FILE", file);
    };
    check("workload-identity", configure, use_queues).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_managed_identity_gets_tokens() {
    let configure = |entra: &Entra, command: &mut Command| {
        command.env("IDENTITY_ENDPOINT", format!("https://127.0.0.1:{}/identity", entra.port));
        command.env("IDENTITY_HEADER", SECRET);
    };
    check("managed-identity", configure, use_queues).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn the_azure_cli_gets_tokens() {
    let configure = |entra: &Entra, command: &mut Command| {
        let programs = entra.folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        // It asks the stand-in, as the real one would ask Entra ID.
        let script = format!(
            "#!/bin/sh\ncurl -s --cacert {}/ca.pem -H 'x-identity-header: {SECRET}' \
             https://127.0.0.1:{}/identity | sed -e 's/access_token/accessToken/' \
             -e 's/token_type/tokenType/' -e 's/\"expires_on\":\"\\([0-9]*\\)\"/\"expires_on\":\\1/'\n",
            entra.folder.path().display(),
            entra.port
        );
        fs::write(programs.join("az"), script).unwrap();
        fs::set_permissions(programs.join("az"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", programs.display()));
    };
    check("azure-cli", configure, use_queues).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_wrong_client_secret_is_not_authorized_and_says_so() {
    let credential = "client-secret;TenantId=tenant;ClientId=client;ClientSecret=wrong";
    check(
        credential,
        |_, _| (),
        async |account| {
            let error = provision(&account).await;
            assert_eq!(error.kind, ErrorKind::NotAuthorized);
            let expected =
                "no token; check tenant, client id and client secret (HTTP 401 AADSTS7000215)";
            assert_eq!(remedy(&error), expected);
        },
    )
    .await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_identity_provider_that_is_down_is_unavailable() {
    let credential = format!("client-secret;TenantId=tenant;ClientId=client;ClientSecret={SECRET}");
    let configure = |_: &Entra, command: &mut Command| {
        command.env("AZURE_AUTHORITY_HOST", "https://127.0.0.1:9");
    };
    check(&credential, configure, async |account| {
        let error = provision(&account).await;
        assert_eq!(error.kind, ErrorKind::Unavailable, "{}", remedy(&error));
        assert!(
            remedy(&error).contains("cannot reach the identity provider"),
            "{}",
            remedy(&error)
        );
    })
    .await;
}

/// Starts the servers and this test again, which then calls `work` with the connection string.
async fn check(
    credential: &str,
    configure: impl FnOnce(&Entra, &mut Command),
    work: impl AsyncFnOnce(String),
) {
    if let Ok(account) = env::var(ACCOUNT) {
        return work(account).await;
    }
    let entra = Entra::start().await;
    let azurite = Azurite::accepting_tokens(entra.folder.path()).unwrap();
    let test = std::thread::current().name().unwrap().to_owned();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", &test]);
    command.env(ACCOUNT, format!("{};Credential={credential}", azurite.endpoints()));
    command.env("AZURE_AUTHORITY_HOST", format!("https://127.0.0.1:{}", entra.port));
    command.env("SSL_CERT_FILE", entra.folder.path().join("ca.pem"));
    configure(&entra, &mut command);
    let done = command.output().await.unwrap();
    let printed = [done.stdout, done.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(done.status.success() && printed[0].contains("1 passed"), "{printed:?}");
    assert!(!printed.concat().contains(SECRET), "{printed:?}");
}

/// Queues and bodies in Blob Storage.
async fn use_queues(account: String) {
    let claim_check = Some(bezoar_azure::ClaimCheck::default());
    let transport = open(bezoar_azure::Options { claim_check, ..options_at(&account) });
    let queue = QueueName::new("tokens").unwrap();
    transport.provision(&queue).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    for size in [10, 200_000] {
        send(&transport, &queue, message("m", vec![7; size])).await.unwrap();
        let held = one(&*subscription).await;
        assert_eq!(held.message.body.len(), size);
        settle(&*subscription, held, Settlement::Complete).await.unwrap();
    }
}

async fn provision(account: &str) -> TransportError {
    let queue = QueueName::new("tokens").unwrap();
    open(options_at(account)).provision(&queue).await.unwrap_err()
}

fn remedy(error: &TransportError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

/// The stand-in for Entra ID. It ends with this process.
struct Entra {
    port: u16,
    /// With its certificates.
    folder: TempDir,
    _server: Child,
}

impl Entra {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        certificates::create(folder.path()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/entra.js");
        let mut node = Command::new("node");
        node.arg(script).arg(folder.path()).arg(SECRET).kill_on_drop(true);
        let mut server = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        Self { port, folder, _server: server }
    }
}

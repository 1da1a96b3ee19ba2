//! `bezoar check`, `bezoar provision`, and secrets in what they and a gateway print.

use test_support::azurite::Azurite;

use crate::{
    endpoint::Endpoint,
    lab::{Lab, python},
    life::route,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn check_and_provision_say_what_is_missing_and_create_it() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::new("create_if_missing = false", &route(endpoint.port));
    let (ok, said) = lab.run("check", &[]);
    assert!(!ok, "{said}");
    let (queue, name) = (&lab.queue, lab.name());
    for line in [
        "transport lab: ok".to_owned(),
        format!(
            "error: queue {name}: queue \"{queue}\" does not exist; create it with `bezoar provision`"
        ),
        format!("warning: queue {name}: queue \"{queue}-poison\" does not exist; create it with"),
    ] {
        assert!(said.contains(&line), "{line}\n{said}");
    }
    let (ok, said) = lab.run("provision", &["--print"]);
    let planned = format!(
        "# lab\n# add --connection-string, or --account-name and --auth-mode login\n\
         az storage queue create --name {queue}\naz storage queue create --name {queue}-poison\n"
    );
    assert!(ok && said == planned, "{said}");
    let (ok, said) = lab.run("provision", &["--print", "definitions"]);
    assert!(!ok && said.contains("--print commands"), "{said}");
    let (ok, said) = lab.run("provision", &[]);
    assert!(ok && said.contains(&format!("queue {name}: provisioned")), "{said}");
    assert_eq!(python("count", &lab.poison(), &[]), 0);
    let (ok, said) = lab.run("check", &[]);
    assert!(ok && said.contains(&format!("queue {name}: ok")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_queue_that_will_be_created_is_a_note() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::new("", &route(endpoint.port));
    let (ok, said) = lab.run("check", &[]);
    let note = "does not exist; it is created at the next start, or by `bezoar provision`";
    assert!(ok && said.contains(note) && said.contains("note: queue lab/"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_poison_queue_of_others_that_is_missing_is_an_error_and_check_creates_nothing() {
    let lab = Lab::new("", "[[queue]]\nname = \"lab/QUEUE\"\ndead_letter_queue = \"QUEUE-errors\"");
    lab.python("create", &[]);
    for _ in 0..2 {
        let (ok, said) = lab.run("check", &[]);
        let error = format!("queue \"{}-errors\" does not exist; create it, or correct", lab.queue);
        assert!(!ok && said.contains(&error), "{said}");
    }
}

/// With a wrong key, every command fails with a remedy, and none shows the key.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_key_is_never_printed() {
    const CANARY: &str = "Q0FOQVJZQ0FOQVJZ";
    let account = Azurite::shared().connection_string();
    let account = account.replace(Azurite::shared().key(), CANARY);
    let log = "[log]\nfilter = \"trace\"\n";
    let lab = Lab::at(account, "", &[log, &route(1)].concat());
    let (ok, said) = lab.run("check", &[]);
    let remedy = "error: transport lab: check failed: azurequeue validate: not authorized, check the credentials: check the account key";
    assert!(!ok && said.contains(remedy), "{said}");
    let (_, shown) = lab.run("config", &["show"]);
    assert!(shown.contains("transports.lab.connection_string"), "{shown}");
    let (gateway, client) = lab.up();
    client.until(&lab.name(), |row| row["route"]["problem"].is_string()).await;
    let mut printed = vec![said, shown, lab.run("provision", &[]).1];
    for path in ["/v1/queues", "/metrics"] {
        printed.push(String::from_utf8_lossy(&client.get(path).await.body).into_owned());
    }
    let said = gateway.stop();
    printed.extend([said.stdout, said.stderr]);
    for text in printed {
        assert!(!text.contains(CANARY) && !text.contains("CANARY"), "{text}");
    }
}

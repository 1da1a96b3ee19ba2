//! `bezoar check` says what is wrong with a store, and what to do.

use std::{path::Path, process::Command};

use test_support::postgres::Postgres;

use crate::lab::{Gateway, configure, quoted};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn check_says_whether_a_store_can_be_used() {
    let server = Postgres::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = |text: &str| configure(folder.path(), text, 9);
    let nowhere = format!("{}nowhere", server.url().strip_suffix("postgres").unwrap());
    let nobody = server.url().replace("postgres@", "nobody:CANARY@");
    for (url, expected) in [
        (server.url(), "reachable; its schema will be created at the first start"),
        (nobody, "refused user or password"),
        (nowhere, "no such database; create it"),
    ] {
        store(&quoted(&url));
        let said = check(folder.path());
        assert!(said.contains(expected) && !said.contains("CANARY"), "{url}: {said}");
    }
    store(&format!("{}\nmigrate = false", quoted(&server.url())));
    assert!(check(folder.path()).contains("there is no schema"), "{}", check(folder.path()));
    let gateway = Gateway::start(&quoted(&server.url())).await;
    store(&quoted(&server.url()));
    assert!(check(folder.path()).contains("/postgres: ok"), "{}", check(folder.path()));
    gateway.program.stop();
}

fn check(folder: &Path) -> String {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
    let output = command.arg("check").current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

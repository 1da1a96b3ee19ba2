//! `[transports.NAME]` and `[store]` for PostgreSQL.

use super::*;
use crate::config::{PostgresConfig, StorePlace, TransportSettings, keys, show_text};

const LAB: &str = "[transports.lab]\nurl = 'postgres://lab@db.example.org/lab?sslmode=require'\n";

fn postgres(loaded: &Loaded) -> PostgresConfig {
    match &loaded.config.transports[0].settings {
        TransportSettings::Postgres(postgres) => postgres.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_defaults_are_those_of_the_transport() {
    let read = postgres(&loaded(LAB));
    let transport = bezoar::postgres::Options::from_url(read.url.reveal()).unwrap();
    assert_eq!(read.schema.as_str(), transport.schema);
    assert_eq!(read.migrate, transport.migrate);
    assert_eq!(read.transaction_pooling, transport.transaction_pooling);
    assert_eq!(read.max_connections, transport.max_connections);
    assert_eq!(read.connect_timeout, transport.connect_timeout);
    assert_eq!(read.statement_timeout, transport.statement_timeout);
    assert_eq!(read.poll, transport.poll);
}

#[test]
fn a_password_of_its_own_becomes_part_of_the_url_and_is_not_shown() {
    let loaded = loaded(&[LAB, "password = 'env:WEAK'\n"].concat());
    let url = "postgres://lab:hunter2@db.example.org/lab?sslmode=require";
    assert_eq!(postgres(&loaded).url.reveal(), url);
    let shown = show_text(&loaded);
    assert!(shown.contains("db.example.org") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn dead_letters_cannot_be_rejected() {
    let route =
        "[[route]]\nname = 'a'\nfrom = 'lab/results'\nto = 'http://h/'\ndead_letter = 'reject'\n";
    assert_eq!(problems(&[LAB, route].concat()).len(), 1);
}

const STORE: &str = "[store]\nurl = 'postgres://lab@db.example.org/lab'\n";

#[test]
fn a_store_is_configured_as_a_transport_is() {
    let all = "password = 'env:WEAK'\nfolder = 'here'\nschema = 'lab'\nmax_connections = 3\n";
    let loaded = loaded(&[STORE, all].concat());
    let StorePlace::Postgres(store) = &loaded.config.store.place else { panic!("a database") };
    assert_eq!(store.database.url.reveal(), "postgres://lab:hunter2@db.example.org/lab");
    assert_eq!(store.database.schema.as_str(), "lab");
    assert_eq!(store.database.max_connections, 3);
    assert_eq!(loaded.config.store.folder(), std::path::Path::new("here"));
    assert_eq!(loaded.config.store.to_string(), "postgres://lab:***@db.example.org/lab");
    assert_eq!(store.database.file_name(), "postgres-db.example.org-lab-lab");
    let shown = show_text(&loaded);
    assert!(!shown.contains("hunter2"), "{shown}");
    let of_database = keys().iter().filter(|it| it.parent() == "store" && it.default.is_some());
    for key in of_database.filter(|key| key.transport.is_some()) {
        let line = format!("{} ", key.path); // the values are aligned
        assert!(shown.lines().any(|it| it.starts_with(&line)), "{} in {shown}", key.path);
    }
}

#[test]
fn keys_of_another_kind_of_store_are_refused() {
    for (text, expected) in [
        ([STORE, "max_size = '1GiB'\n"].concat(), "store.max_size is only for an SQLite store"),
        ("[store]\nschema = 'lab'\n".to_owned(), "store.schema is only for a PostgreSQL store"),
        ("[store]\nurl = 'env:NOT_THERE'\n".to_owned(), "store.url refers to env:NOT_THERE"),
        ("[store]\nurl = 'postgres:lab'\n".to_owned(), "store.url is not a URL"),
    ] {
        let found = problems(&text);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}

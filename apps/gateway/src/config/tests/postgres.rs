//! `[transports.NAME]` for PostgreSQL.

use super::*;
use crate::config::{PostgresConfig, TransportSettings, show_text};

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

//! No body, header value, error text, key or signature reaches a log, at any level.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use bezoar_core::QueueAdmin;
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

use super::support::{
    dead, dead_letter, message, one, open, options, options_at, queue, retry, sas,
    sas_connection_string, send, settle, subscribe,
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn nothing_confidential_is_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(log.clone())
        .finish();
    // Global, because other tests may have decided before that nobody listens. Their lines are searched too.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let signature = sas("rwdlacup", "2099-01-01");
    let transports = [open(options()), open(options_at(&sas_connection_string(&signature)))];
    for transport in transports {
        let queue = queue("secret").await;
        let sent = message("m", "CANARY").with_header("name", "CANARY");
        send(&transport, &queue, sent).await.unwrap();
        let subscription = subscribe(&transport, &queue, 30).await;
        let held = one(&*subscription).await;
        settle(&*subscription, held, retry("CANARY")).await.unwrap();
        let held = one(&*subscription).await;
        settle(&*subscription, held, dead_letter("CANARY")).await.unwrap();
        dead(&transport, &queue).await;
        transport.depth(&queue).await.unwrap();
    }
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("performing request"), "the official crate logs its requests");
    let key = test_support::azurite::Azurite::shared().key();
    let signature = signature.split_once("sig=").unwrap().1;
    for secret in ["CANARY", "Q0FOQVJZ", key, signature] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "a secret was logged");
    }
}

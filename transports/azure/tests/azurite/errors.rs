//! Azure's errors: each has its kind and says what to do, and none fails a message.

use std::{
    error::Error,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar_core::{ErrorKind, Failure, Ledger, ManualClock, QueueAdmin, QueueName, TransportError};
use bezoar_runtime::{Context, Host, Router, Shutdown, Worker};

use super::{
    faulty_proxy::{Fault, FaultyProxy},
    support::{
        Outside, message, open, options, options_at, queue, sas, sas_connection_string, send,
        subscribe,
    },
};

fn remedy(error: &TransportError) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

async fn refusal(connection_string: &str) -> TransportError {
    let queue = queue("errors").await;
    let transport = open(options_at(connection_string));
    send(&transport, &queue, message("m", "body")).await.unwrap_err()
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_wrong_key_is_not_authorized() {
    let right = test_support::azurite::Azurite::shared().connection_string();
    let wrong = right.replace("AccountKey=Eby8", "AccountKey=AAAA");
    let error = refusal(&wrong).await;
    assert_eq!(error.kind, ErrorKind::NotAuthorized);
    assert!(remedy(&error).contains("check the account key"), "{}", remedy(&error));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_expired_signature_says_so() {
    let error = refusal(&sas_connection_string(&sas("raup", "2020-01-01"))).await;
    assert_eq!(error.kind, ErrorKind::NotAuthorized);
    assert!(remedy(&error).contains("expired at 2020-01-01"), "{}", remedy(&error));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_signature_without_a_permission_says_so() {
    let error = refusal(&sas_connection_string(&sas("r", "2099-01-01"))).await;
    assert_eq!(error.kind, ErrorKind::NotAuthorized);
    assert!(remedy(&error).contains("lacks a permission"), "{}", remedy(&error));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_wrong_clock_says_so() {
    let (queue, proxy) = (queue("clock").await, FaultyProxy::start().await);
    let transport = open(bezoar_azure::Options {
        clock: Arc::new(ManualClock::default()),
        ..options_at(&proxy.connection_string())
    });
    // Azurite does not compare the times, Azure does.
    let date = "date: Tue, 17 Nov 2026 12:00:00 GMT\r\n".to_owned();
    proxy.hit("POST", 1, Fault::Answer(403, "AuthenticationFailed", date));
    let error = send(&transport, &queue, message("m", "body")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotAuthorized);
    assert!(remedy(&error).contains("set the clock"), "{}", remedy(&error));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn answers_of_azure_have_their_kinds() {
    let (queue, proxy) = (queue("answers").await, FaultyProxy::start().await);
    let transport = open(options_at(&proxy.connection_string()));
    let wait = Some(Duration::from_secs(3));
    for (status, code, headers, kind) in [
        (503, "ServerBusy", "retry-after: 3\r\n", ErrorKind::Throttled { retry_after: wait }),
        (503, "ServerBusy", "", ErrorKind::Throttled { retry_after: None }),
        (500, "OperationTimedOut", "", ErrorKind::OutcomeUnknown),
        (409, "QueueBeingDeleted", "", ErrorKind::Unavailable),
        (412, "ConditionNotMet", "", ErrorKind::LeaseLost),
        (404, "QueueNotFound", "", ErrorKind::QueueNotFound(queue.clone())),
        (418, "Unheard", "", ErrorKind::Other),
    ] {
        proxy.hit("POST", 1, Fault::Answer(status, code, headers.to_owned()));
        let error = send(&transport, &queue, message("m", "body")).await.unwrap_err();
        assert_eq!(error.kind, kind, "{status} {code}");
        assert!(remedy(&error).contains(code), "{}", remedy(&error));
    }
    assert!(Outside::queue(queue.as_str()).peek().await.is_empty(), "nothing was sent");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn no_connection_is_unavailable_and_shows_no_secret() {
    let account = "AccountName=lab;AccountKey=Q0FOQVJZ;QueueEndpoint=http://127.0.0.1:9/lab";
    let transport = open(options_at(account));
    let error = send(&transport, &QueueName::new("results").unwrap(), message("m", "CANARY")).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(remedy(&error), "cannot connect: connection refused");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_queue_that_is_deleted_meanwhile_is_named() {
    let (queue, transport) = (queue("deleted").await, open(options()));
    let subscription = subscribe(&transport, &queue, 30).await;
    Outside::queue(queue.as_str()).delete_queue().await;
    let error = subscription.receive(NonZeroU32::MIN, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::QueueNotFound(queue.clone()));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_signature_is_enough_for_everything() {
    let queue = QueueName::new(format!("sas-{:08x}", rand::random::<u32>())).unwrap();
    let transport = open(options_at(&sas_connection_string(&sas("rwdlacup", "2099-01-01"))));
    transport.provision(&queue).await.unwrap();
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    let mut held = super::support::one(&*subscription).await;
    let renewed = subscription.extend(std::slice::from_mut(&mut held), Duration::from_secs(60));
    renewed.await.pop().unwrap().unwrap();
    let dead_letter = super::support::dead_letter("detail");
    super::support::settle(&*subscription, held, dead_letter).await.unwrap();
    assert_eq!(super::support::dead(&transport, &queue).await.len(), 1);
    assert!(transport.queues().await.unwrap().contains(&queue));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn names_that_azure_refuses_are_refused_with_the_rule() {
    let transport = open(options());
    for (name, rule) in [
        ("Not-Valid".to_owned(), "3 to 63 lowercase letters"),
        ("x".repeat(60), "use at most 56 characters"),
    ] {
        let queue = QueueName::new(name).unwrap();
        let error = transport.provision(&queue).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Invalid(_)), "{error}");
        assert!(error.to_string().contains(rule), "{error}");
    }
}

/// Whatever Azure answers meanwhile, the message is handled once it works again, and has used up no retry.
#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn no_error_of_azure_fails_a_message() {
    for (status, code) in
        [(503, "ServerBusy"), (403, "AuthenticationFailed"), (500, "InternalError")]
    {
        for requests in ["GET", "DELETE"] {
            let (queue, proxy) = (queue("outage").await, FaultyProxy::start().await);
            let transport = open(options_at(&proxy.connection_string()));
            send(&transport, &queue, message("m", "body")).await.unwrap();
            proxy.hit(requests, 3, Fault::Answer(status, code, String::new()));
            let ledgers = handle_all(&transport, &queue).await;
            assert_eq!(proxy.hits(), 3, "{requests} was answered with {status}");
            assert!(ledgers.iter().all(|it| it.failed == 0), "{status} on {requests}: {ledgers:?}");
            assert_eq!(ledgers.len(), 1, "{status} on {requests}: handled once");
            assert_eq!(transport.depth(&queue).await.unwrap().dead, Some(0));
        }
    }
}

/// Runs a worker until the queue is empty; returns the ledger of each message that was handled.
async fn handle_all(transport: &bezoar_azure::AzureTransport, queue: &QueueName) -> Vec<Ledger> {
    let ledgers = Arc::new(Mutex::new(Vec::new()));
    let seen = ledgers.clone();
    let handler = move |context: Context| {
        seen.lock().unwrap().push(context.message.ledger.clone());
        async { Ok::<(), Failure>(()) }
    };
    let worker = Worker::new(queue.as_str(), Router::new().on("lab.result", handler)).unwrap();
    let (stop, shared) = (Shutdown::default(), Arc::new(transport.clone()));
    let running = tokio::spawn(Host::new().worker(shared, worker).run(stop.clone()));
    let outside = Outside::queue(queue.as_str());
    while outside.count().await > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.drain();
    running.await.unwrap().unwrap();
    let ledgers = ledgers.lock().unwrap();
    ledgers.clone()
}

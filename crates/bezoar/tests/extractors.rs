//! Extensions that layers insert, and extractors that wait.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    AttemptNumber, Context, Extension, Failure, FromMessage, FromRef, HandlerError, Json, Router,
    State, Worker, testing::Harness,
};

type Notes = Arc<Mutex<Vec<String>>>;

#[derive(Clone)]
struct Tenant(String);

/// Tells handlers who the message is for, and how often it was told within one delivery.
fn tenants<S>(
    inner: S,
) -> impl tower::Service<Context, Response = (), Error = HandlerError, Future: Send> + Clone
where
    S: tower::Service<Context, Response = (), Error = HandlerError, Future: Send> + Clone,
{
    let tell = |mut context: Context| {
        let earlier = context.extensions.get::<Tenant>().map_or(0, |_| 1);
        context.extensions.insert(Tenant(format!("clinic {earlier}")));
        context
    };
    tower::ServiceBuilder::new().map_request(tell).service(inner)
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_what_a_layer_inserted_and_each_try_begins_without() {
    async fn handler(
        Extension(Tenant(tenant)): Extension<Tenant>,
        absent: Option<Extension<u64>>,
        AttemptNumber(attempt): AttemptNumber,
        State(notes): State<Notes>,
    ) -> Result<(), Failure> {
        notes.lock().unwrap().push(format!("{tenant} {attempt} {}", absent.is_none()));
        if notes.lock().unwrap().len() < 3 { Err("again")? } else { Ok(()) }
    }
    let notes = Notes::default();
    let router = Router::with_state(notes.clone()).on("result", handler);
    let worker = Worker::new("lab", router).unwrap().immediate_retries(1);
    let lab = Harness::start(worker.layer(tower::layer::layer_fn(tenants))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(*notes.lock().unwrap(), ["clinic 0 1 true", "clinic 0 1 true", "clinic 0 2 true"]);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_no_layer_inserted_fails_the_attempt() {
    async fn handler(_: Extension<Tenant>) {}
    let lab = Worker::new("lab", Router::new().on("result", handler)).unwrap();
    let lab = Harness::start(lab).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    let last = dead[0].message.ledger.last().unwrap();
    assert_eq!(last.code.as_str(), "no-extension");
    assert!(last.detail.reveal().contains("Tenant"), "{}", last.detail.reveal());
}

/// Where wards are looked up; it takes a second.
#[derive(Clone, Default)]
struct Directory(Notes);

#[derive(Debug)]
struct Ward(String);

impl<S: Sync> FromMessage<S> for Ward
where
    Directory: FromRef<S>,
{
    async fn from_message(context: &Context, state: &S) -> Result<Self, Failure> {
        let State(directory) = State::<Directory>::from_message(context, state).await?;
        let number = context.message.headers.get("ward").map(|ward| ward.reveal().clone());
        let number = number.ok_or_else(|| Failure::permanent("no ward"))?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        directory.0.lock().unwrap().push(format!("looked up {number}"));
        Ok(Self(number))
    }
}

#[tokio::test(start_paused = true)]
async fn an_extractor_may_wait_and_its_failure_is_the_handlers() {
    async fn handler(ward: Ward, Json(value): Json<u32>, State(directory): State<Directory>) {
        directory.0.lock().unwrap().push(format!("{} {value}", ward.0));
    }
    let directory = Directory::default();
    let router = Router::with_state(directory.clone()).on("result", handler);
    let lab = Harness::start(Worker::new("lab", router).unwrap()).await;
    let message = lab.bezoar().message_of_type("result", &7).header("ward", "7b");
    message.send_to("lab").await.unwrap();
    lab.send("result", &8).await;
    lab.until_idle().await;
    assert_eq!(*directory.0.lock().unwrap(), ["looked up 7b", "7b 7"]);
    let dead = lab.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].reason.to_string(), "non-retryable error: permanent");
}

#[tokio::test(start_paused = true)]
async fn waiting_extractors_count_towards_the_timeout() {
    async fn handler(_: Ward) {}
    let router = Router::with_state(Directory::default()).on("result", handler);
    let worker = Worker::new("lab", router).unwrap().timeout(Duration::from_millis(500));
    let lab = Harness::start(worker).await;
    let message = lab.bezoar().message_of_type("result", &7).header("ward", "7b");
    message.send_to("lab").await.unwrap();
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    assert_eq!(dead[0].message.ledger.last().unwrap().code, bezoar::Code::TIMEOUT);
}

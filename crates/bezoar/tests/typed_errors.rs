//! Errors decide by their type whether a message is retried, and `?` works on all of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{io, time::Duration};

use bezoar::{Classification, Code, Failure, FailureKind, Router, Worker, testing::Harness};

#[derive(Debug, Clone, Copy, thiserror::Error)]
enum LabError {
    #[error("implausible")]
    Implausible,
    #[error("busy")]
    Busy,
}

impl LabError {
    fn classification(&self) -> Classification {
        match self {
            Self::Implausible => (FailureKind::Permanent, Code::from_static("implausible")).into(),
            Self::Busy => Classification::new(FailureKind::ExternalService)
                .with_retry_after(Duration::from_secs(120)),
        }
    }
}

/// As of another crate, which knows nothing of this one.
#[derive(Debug, thiserror::Error)]
#[error("connection closed")]
struct SqlError;

#[derive(Debug, thiserror::Error)]
#[error("not stored")]
struct NotStored(#[source] Box<dyn std::error::Error + Send + Sync>);

async fn by_question_mark() -> Result<(), Failure> {
    Err(LabError::Implausible)?;
    Ok(())
}

async fn as_it_is() -> Result<(), LabError> {
    Err(LabError::Implausible)
}

async fn in_a_box() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err(LabError::Implausible)?;
    Ok(())
}

async fn as_a_source() -> Result<(), Failure> {
    Err(NotStored(LabError::Implausible.into()))?;
    Ok(())
}

async fn with_context() -> anyhow::Result<()> {
    Err(anyhow::Error::new(LabError::Implausible).context("not stored"))
}

#[cfg(feature = "anyhow")]
async fn by_anyhow() -> anyhow::Result<()> {
    Err(LabError::Implausible)?;
    Ok(())
}

async fn of_another_crate() -> Result<(), Failure> {
    Err(SqlError)?;
    Ok(())
}

async fn said_by_the_handler() -> Result<(), Failure> {
    Err(Failure::transient(LabError::Implausible))
}

async fn undecided(kind: bezoar::MessageType) -> Result<(), Failure> {
    match kind.as_str() {
        "io" => Err(io::Error::other("disk full"))?,
        "string" => Err(String::from("text"))?,
        "str" => Err("text")?,
        "anyhow" => Err(anyhow::anyhow!("text"))?,
        other => panic!("{other}"),
    }
    Ok(())
}

/// The kind and code of the last failure of a message of this type.
async fn outcome(message_type: &str) -> (FailureKind, String) {
    let router = Router::new()
        .classify(LabError::classification)
        .classify(|_: &SqlError| FailureKind::Database)
        .on("by-question-mark", by_question_mark)
        .on("as-it-is", as_it_is)
        .on("in-a-box", in_a_box)
        .on("as-a-source", as_a_source)
        .on("with-context", with_context)
        .on("of-another-crate", of_another_crate)
        .on("said-by-the-handler", said_by_the_handler)
        .fallback(undecided);
    #[cfg(feature = "anyhow")]
    let router = router.on("by-anyhow", by_anyhow);
    let lab = Harness::start(Worker::new("lab", router).unwrap()).await;
    lab.send(message_type, &1).await;
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    let last = dead[0].message.ledger.last().unwrap();
    (last.kind, last.code.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_typed_error_decides_its_kind_however_it_is_returned() {
    for way in ["by-question-mark", "as-it-is", "in-a-box", "as-a-source", "with-context"] {
        let implausible = (FailureKind::Permanent, "implausible".to_owned());
        assert_eq!(outcome(way).await, implausible, "{way}");
    }
}

#[cfg(feature = "anyhow")]
#[tokio::test(start_paused = true)]
async fn a_typed_error_in_anyhow_decides_its_kind() {
    assert_eq!(outcome("by-anyhow").await, (FailureKind::Permanent, "implausible".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_another_crate_is_given_a_kind() {
    assert_eq!(outcome("of-another-crate").await.0, FailureKind::Database);
}

#[tokio::test(start_paused = true)]
async fn what_the_handler_says_is_kept() {
    assert_eq!(outcome("said-by-the-handler").await.0, FailureKind::Transient);
}

#[tokio::test(start_paused = true)]
async fn any_other_error_is_retried_as_unknown() {
    for text in ["io", "string", "str", "anyhow"] {
        assert_eq!(outcome(text).await, (FailureKind::Unknown, "unknown".to_owned()), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_can_say_how_long_to_wait() {
    let handler = |bezoar::AttemptNumber(attempt)| async move {
        if attempt == 1 { Err(LabError::Busy) } else { Ok(()) }
    };
    let router = Router::new().classify(LabError::classification).on("result", handler);
    let lab = Harness::start(Worker::new("lab", router).unwrap()).await;
    let started = tokio::time::Instant::now();
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(started.elapsed(), Duration::from_secs(120));
}

#[tokio::test(start_paused = true)]
async fn layers_see_the_kind_that_a_rule_decided() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = seen.clone();
    let layer = tower::layer::layer_fn(move |inner| {
        let notes = notes.clone();
        let note = move |error: bezoar::HandlerError| {
            notes.lock().unwrap().push(error.to_string());
            error
        };
        tower::ServiceBuilder::new().map_err(note).service(inner)
    });
    let router = Router::new().classify(LabError::classification).on("result", as_it_is);
    let lab = Harness::start(Worker::new("lab", router).unwrap().layer(layer)).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(*seen.lock().unwrap(), ["permanent (implausible)"]);
}

//! `/v1/poison-retries`: the processors of poison queues, and runs on demand.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::{QueueName, catalogue::Verb};
use http::StatusCode;

use super::{Problem, caller::Caller, parameters::QueuePath, segment::Segment};
use crate::{
    api_types::{Page, PoisonRetry, PoisonRunReport},
    app::App,
    config::Role,
    poison_retry::Processor,
    route::describe,
};

/// Lists the poison queues whose messages are delivered again, and how the last run of each ended.
#[utoipa::path(
    get, path = "/v1/poison-retries", operation_id = "list_poison_retries", tag = "poison retries",
    responses((status = 200, description = "Success.", body = Page<PoisonRetry>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Page<PoisonRetry>>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let all = app.poison_retries.all();
    let seen = all.iter().filter(|it| caller.sees(it.queue())).map(|it| it.to_api());
    Ok(Json(Page::whole(seen.collect())))
}

/// Delivers a batch of a poison queue now. The run goes on if the caller does not wait for its end.
#[utoipa::path(
    post, path = "/v1/poison-retries/{queue}/runs", operation_id = "run_poison_retry", tag = "poison retries",
    params(QueuePath),
    responses((status = 200, description = "Success.", body = PoisonRunReport))
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
) -> Result<Json<PoisonRunReport>, Problem> {
    let queue = QueueName::new(queue).map_err(Problem::unknown)?;
    caller.needs(Role::Operator, Some(&queue))?;
    let processor = find(&app, &caller, &queue)?;
    let target = format!("poison retry of queue {queue}");
    let action = caller.action(Verb::Replay, target, String::new());
    app.catalogue().log(&action).await?;
    let running = tokio::spawn(async move { processor.run(&app).await });
    let failed =
        |detail| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "poison-retry-failed", detail);
    let ended = running.await.map_err(|_| failed("the run panicked; see the log".to_owned()))?;
    let run = ended.map_err(|it| failed(format!("{it}: {}", describe(&it.source))))?;
    Ok(Json(PoisonRunReport { queue: queue.to_string(), counts: (&run).into() }))
}

fn find(app: &App, caller: &Caller, queue: &QueueName) -> Result<Arc<Processor>, Problem> {
    app.poison_retries.find(queue).ok_or_else(|| {
        let all = app.poison_retries.all();
        let known: Vec<_> = all
            .iter()
            .map(|it| it.queue())
            .filter(|it| caller.sees(it))
            .map(QueueName::as_str)
            .collect();
        let detail = match known.as_slice() {
            [] => "no [[poison_retry]] is configured".to_owned(),
            known => {
                format!("no [[poison_retry]] works on queue {queue:?}; known: {}", known.join(", "))
            }
        };
        Problem::not_found(detail)
    })
}

//! `/v1/status`: one verdict with its reasons.

use std::{cmp::Reverse, sync::Arc};

use axum::{Json, extract::State};

use super::{Problem, caller::Caller};
use crate::{
    api_types::{BreakerState, GatewayStatus, QueueStatus, RouteStatus, StatusReason, Verdict},
    app::App,
    config::Role,
};

/// Returns one verdict with its reasons, most severe first.
#[utoipa::path(
    get, path = "/v1/status", operation_id = "get_status", tag = "gateway",
    responses((status = 200, description = "Success.", body = GatewayStatus))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<GatewayStatus>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let mut reasons = Vec::new();
    if let Err(why) = app.writes.check(&*app.catalogue).await {
        reasons.push(reason(Verdict::Critical, "not-ready", why));
    }
    app.broker_counts.refresh().await;
    for queue in app.queues().into_iter().filter(|queue| caller.sees(queue)) {
        match app.queue_status(&queue).await {
            Ok(status) => reasons.extend(of_queue(&status.to_api())),
            Err(_) => {
                let detail = format!("queue {queue}: the store does not answer");
                let unavailable = reason(Verdict::Critical, "store-unavailable", &detail);
                reasons.push(StatusReason { queue: Some(queue.to_string()), ..unavailable });
            }
        }
    }
    Ok(Json(judged(reasons)))
}

fn reason(severity: Verdict, code: &str, detail: &str) -> StatusReason {
    let (code, detail) = (code.to_owned(), detail.to_owned());
    StatusReason { severity, code, detail, queue: None, route: None }
}

/// The verdict is that of the most severe reason.
fn judged(mut reasons: Vec<StatusReason>) -> GatewayStatus {
    reasons.sort_by_key(|reason| Reverse(reason.severity.severity()));
    let verdict = reasons.first().map_or(Verdict::Ok, |reason| reason.severity);
    GatewayStatus { verdict, reasons }
}

/// What is wrong with a queue and its route.
fn of_queue(status: &QueueStatus) -> Vec<StatusReason> {
    let name = &status.queue;
    let unavailable = status.problem.as_ref().map(|problem| {
        reason(
            Verdict::Unknown,
            "queue-unavailable",
            &format!("queue {name} is unavailable: {problem}"),
        )
    });
    let dead = match status.dead {
        Some(0) => None,
        Some(1) => Some((Verdict::Critical, format!("queue {name} has 1 dead letter"))),
        Some(dead) => Some((Verdict::Critical, format!("queue {name} has {dead} dead letters"))),
        None if status.problem.is_some() => None,
        None => Some((
            Verdict::Unknown,
            format!("the number of dead letters of queue {name} is unknown"),
        )),
    };
    let dead = dead.map(|(severity, detail)| reason(severity, "dead-letters", &detail));
    let of_route = status.route.as_ref().and_then(of_route);
    let all = [unavailable, dead, of_route].into_iter().flatten();
    all.map(|reason| StatusReason { queue: Some(name.clone()), ..reason }).collect()
}

/// What is wrong with a route; the first thing that keeps it from delivering.
fn of_route(route: &RouteStatus) -> Option<StatusReason> {
    let name = &route.name;
    let (severity, code, detail) = if let Some(problem) = &route.problem {
        (Verdict::Critical, "route-unavailable", format!("route {name} cannot consume: {problem}"))
    } else if let Some(why) = &route.paused {
        (Verdict::Warning, "route-paused", format!("route {name} is paused: {why}"))
    } else if route.breaker != BreakerState::Closed {
        let code = route.breaker_code.as_deref().unwrap_or("unknown");
        (Verdict::Critical, "breaker-open", format!("the breaker of route {name} is open ({code})"))
    } else if route.failed_calls > 0 {
        let code = route.failed_code.as_deref().unwrap_or("unknown");
        let failed = match route.failed_calls {
            1 => "the last call failed".to_owned(),
            calls => format!("the last {calls} calls failed"),
        };
        (Verdict::Warning, "route-failing", format!("route {name}: {failed} ({code})"))
    } else {
        return None;
    };
    Some(StatusReason { route: Some(name.clone()), ..reason(severity, code, &detail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(dead: Option<u64>, route: Option<RouteStatus>) -> QueueStatus {
        QueueStatus { queue: "lab".to_owned(), dead, route, ..QueueStatus::default() }
    }

    #[test]
    fn the_worst_reason_comes_first_and_is_the_verdict() {
        let open = RouteStatus { breaker: BreakerState::Open, ..RouteStatus::default() };
        let paused = RouteStatus { paused: Some("by hand".to_owned()), ..RouteStatus::default() };
        let half_open = RouteStatus { breaker: BreakerState::HalfOpen, ..RouteStatus::default() };
        let closed = RouteStatus { breaker: BreakerState::Closed, ..RouteStatus::default() };
        let failing = RouteStatus { failed_calls: 2, ..closed };
        let broken = QueueStatus { problem: Some("down".to_owned()), ..queue(None, None) };
        for (status, verdict, codes) in [
            (queue(Some(0), None), Verdict::Ok, vec![]),
            (queue(None, None), Verdict::Unknown, vec!["dead-letters"]),
            (broken, Verdict::Unknown, vec!["queue-unavailable"]),
            (queue(Some(0), Some(paused.clone())), Verdict::Warning, vec!["route-paused"]),
            (queue(None, Some(paused)), Verdict::Unknown, vec!["dead-letters", "route-paused"]),
            (queue(Some(0), Some(open)), Verdict::Critical, vec!["breaker-open"]),
            (queue(Some(0), Some(half_open)), Verdict::Critical, vec!["breaker-open"]),
            (queue(Some(0), Some(failing)), Verdict::Warning, vec!["route-failing"]),
            (queue(Some(2), None), Verdict::Critical, vec!["dead-letters"]),
        ] {
            let judged = judged(of_queue(&status));
            let found: Vec<_> = judged.reasons.iter().map(|it| it.code.as_str()).collect();
            assert_eq!((judged.verdict, found), (verdict, codes));
        }
    }
}

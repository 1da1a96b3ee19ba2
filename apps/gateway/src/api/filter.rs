//! Filters of dead letters, with the same names in a query and in a JSON body.

use axum::extract::{Query, rejection::QueryRejection};
use bezoar::{
    Code, CorrelationId, FailureKind, MessageId, MessageType, QueueName,
    catalogue::{CauseId, DeadLetterState, Filter, OperationId},
};
use jiff::{SignedDuration, Timestamp};

use super::{Problem, caller::Caller};
use crate::{api_types::DeadLetterFilter, app::App, config::human::duration};

const KNOWN: &str = "queue, route, type, kind, code, cause, correlation_id, message_id, since, until, \
                     min_attempts, replayed, state";

/// The parsed query string.
pub(super) type QueryPairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// The names and values of a query; a repeated name is an error.
pub(super) fn pairs(query: QueryPairs) -> Result<Vec<(String, String)>, Problem> {
    let Query(pairs) = query.map_err(|_| Problem::bad_request("invalid query string"))?;
    let mut names: Vec<_> = pairs.iter().map(|(name, _)| name).collect();
    names.sort();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Problem::bad_request("a parameter is repeated"));
    }
    Ok(pairs)
}

/// Builds a filter, limited to what the caller may see. Unknown names are errors, because a misspelt criterion would
/// match everything.
pub(super) fn from_pairs<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    caller: &Caller,
    app: &App,
) -> Result<Filter, Problem> {
    let (mut filter, now) = (Filter::default(), app.now());
    let (mut queue, mut route) = (None, None);
    for (name, value) in pairs {
        match name {
            "queue" => queue = Some(QueueName::new(value).map_err(Problem::unknown)?),
            "route" => route = Some(app.route(value, |route| caller.sees(route.queue()))?),
            "type" => {
                filter.message_type = Some(MessageType::new(value).map_err(Problem::unknown)?)
            }
            "kind" => filter.kind = Some(kind(value)?),
            "code" => filter.code = Some(Code::new(value).map_err(Problem::unknown)?),
            "cause" => filter.cause = Some(CauseId::new(value).map_err(Problem::unknown)?),
            "correlation_id" => {
                filter.correlation_id = Some(CorrelationId::new(value).map_err(Problem::unknown)?)
            }
            "message_id" => {
                filter.message_id = Some(MessageId::new(value).map_err(Problem::unknown)?)
            }
            "since" => filter.since = Some(moment("since", value, now)?),
            "until" => filter.until = Some(moment("until", value, now)?),
            "min_attempts" => filter.min_attempts = Some(number("min_attempts", value)?),
            "replayed" => filter.replayed = Some(yes_or_no("replayed", value)?),
            "state" => filter.state = Some(state(value)?),
            _ => {
                return Err(Problem::bad_request(format!(
                    "unknown filter; known filters: {KNOWN}"
                )));
            }
        }
    }
    let routed = route.map(|route| route.queue().clone());
    if queue.is_some() && routed.is_some() && queue != routed {
        return Err(Problem::bad_request("the route belongs to another queue"));
    }
    filter.queues = caller.limited(queue.or(routed))?;
    Ok(filter)
}

/// The same from the body of a request.
pub(super) fn from_request(
    request: &DeadLetterFilter,
    caller: &Caller,
    app: &App,
) -> Result<Filter, Problem> {
    let pairs = request.pairs();
    from_pairs(pairs.iter().map(|(name, value)| (*name, value.as_str())), caller, app)
}

/// Describes the dead letters that match, for the audit log; none of its values are sensitive.
pub(super) fn words(filter: &Filter) -> String {
    fn part(name: &str, value: Option<impl ToString>) -> Option<String> {
        value.map(|value| format!("{name} {}", value.to_string()))
    }
    let queues = filter.queues.as_ref().map(|queues| {
        let names: Vec<_> = queues.iter().map(QueueName::as_str).collect();
        names.join(", ")
    });
    let parts = [
        part("queue", queues),
        part("type", filter.message_type.as_ref()),
        part("kind", filter.kind),
        part("code", filter.code.as_ref()),
        part("cause", filter.cause.as_ref()),
        part("correlation id", filter.correlation_id.as_ref()),
        part("message id", filter.message_id.as_ref()),
        part("since", filter.since),
        part("until", filter.until),
        part("attempts at least", filter.min_attempts),
        part("replayed", filter.replayed),
        part("state", filter.state),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "all dead letters".to_owned(),
        false => format!("dead letters with {}", parts.join(", ")),
    }
}

fn kind(text: &str) -> Result<FailureKind, Problem> {
    let words = text.replace(['-', '_'], " ");
    let found = FailureKind::ALL.iter().find(|kind| kind.as_str().eq_ignore_ascii_case(&words));
    found.copied().ok_or_else(|| {
        let known =
            FailureKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
        Problem::bad_request(format!("unknown kind; expected one of: {known}"))
    })
}

fn state(text: &str) -> Result<&'static str, Problem> {
    let known = [
        DeadLetterState::Open,
        DeadLetterState::Held(OperationId::from_number(0)),
        DeadLetterState::Edited,
        DeadLetterState::Unapproved,
    ]
    .map(DeadLetterState::as_str);
    let found = known.into_iter().find(|known| *known == text);
    found.ok_or_else(|| {
        Problem::bad_request(format!("unknown state; expected one of: {}", known.join(", ")))
    })
}

/// Parses a time, or an age.
pub(super) fn moment(name: &str, text: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = duration::parse(text).ok().and_then(|ago| SignedDuration::try_from(ago).ok());
    ago.and_then(|ago| now.checked_sub(ago).ok()).ok_or_else(|| {
        let form = "a time such as 2026-11-14T09:30:00Z or an age such as 2h";
        Problem::bad_request(format!("{name} must be {form}"))
    })
}

/// A position in a list, as the description has it: not negative, in 64 bits with a sign.
pub(super) fn position(text: &str) -> Option<u64> {
    text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok())
}

pub(super) fn number(name: &str, text: &str) -> Result<u32, Problem> {
    text.parse().map_err(|_| Problem::bad_request(format!("{name} must be a whole number")))
}

/// Parses a number of rows, from 1 to `most`.
pub(super) fn limit(text: &str, most: u32) -> Result<u32, Problem> {
    match number("limit", text)? {
        some if (1..=most).contains(&some) => Ok(some),
        _ => Err(Problem::bad_request(format!("limit must be from 1 to {most}"))),
    }
}

fn yes_or_no(name: &str, text: &str) -> Result<bool, Problem> {
    text.parse().map_err(|_| Problem::bad_request(format!("{name} must be true or false")))
}

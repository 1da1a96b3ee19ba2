//! The parameters of requests, as `/openapi.json` describes them.

#![expect(
    dead_code,
    reason = "they only describe; handlers read parameters one by one, with an error for each"
)]

use utoipa::IntoParams;

/// A queue in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct QueuePath {
    /// The name of the queue as one segment: hospital%2Fresults.
    queue: String,
}

/// A route in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct RoutePath {
    /// The name of the route.
    route: String,
}

/// An id in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct IdPath {
    /// The id.
    id: String,
}

/// A page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// The maximum number of rows.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// What makes a request safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct IdempotencyHeader {
    /// A text of the client's choice, such as a UUID. A repetition of the request with the same key returns the
    /// operation that the first one planned; a different request with the same key is refused. Keys of different tokens
    /// are different keys, and are kept as long as their operations.
    #[param(
        rename = "idempotency-key",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$"
    )]
    key: Option<String>,
}

/// Conditions for rejections.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RejectionQuery {
    /// Of this queue.
    queue: Option<String>,
    /// With this message id.
    message_id: Option<String>,
    /// With this correlation id.
    correlation_id: Option<String>,
}

/// The headers that describe a message.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct MessageHeaders {
    /// Its id; generated if absent. A message with the same id is accepted once within 24 hours.
    #[param(
        rename = "bezoar-id",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$"
    )]
    id: Option<String>,
    /// Its type; `message` if absent.
    #[param(
        rename = "bezoar-type",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$"
    )]
    message_type: Option<String>,
    /// Connects related messages.
    #[param(
        rename = "bezoar-correlation-id",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$"
    )]
    correlation_id: Option<String>,
    /// The id of the message that caused this one.
    #[param(
        rename = "bezoar-causation-id",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$"
    )]
    causation_id: Option<String>,
    /// The delay before delivery.
    #[param(
        rename = "bezoar-delay",
        pattern = "^([0-9]{1,9}ms|[0-9]{1,7}s|[0-9]{1,5}m|[0-9]{1,3}h)$",
        example = "30s"
    )]
    delay: Option<String>,
}

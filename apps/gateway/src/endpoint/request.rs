//! Builds the request for a message.

use bezoar::{ContentType, Context, Headers};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::Full;
use jiff::Timestamp;

use super::{
    AckMode, EndpointUrl, ExtraHeaders, SigningSecret, header_encoding, hl7, signature::signature,
};

const ID: HeaderName = HeaderName::from_static("bezoar-id");
const TYPE: HeaderName = HeaderName::from_static("bezoar-type");
const QUEUE: HeaderName = HeaderName::from_static("bezoar-queue");
const ATTEMPT: HeaderName = HeaderName::from_static("bezoar-attempt");
const DELIVERY: HeaderName = HeaderName::from_static("bezoar-delivery");
const REPLAY: HeaderName = HeaderName::from_static("bezoar-replay");
pub(super) const REDELIVERED: HeaderName = HeaderName::from_static("bezoar-redelivered");
const CORRELATION_ID: HeaderName = HeaderName::from_static("bezoar-correlation-id");
const LEFT_OUT: HeaderName = HeaderName::from_static("bezoar-headers-left-out");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The prefix of a message's own headers, so that none can pass for a header of the gateway or the route.
const PREFIX: &str = "bezoar-header-";
/// The maximum number and total size of a message's own headers that are forwarded. Common servers reject requests with
/// more than 100 headers or heads above 16 KiB.
const FORWARDED_LIMIT: usize = 64;
const FORWARDED_LIMIT_BYTES: usize = 8 * 1024;
/// The maximum number of headers that the gateway sets itself.
const OURS: usize = 15;

/// What all requests of a route have in common, built once.
#[derive(Debug)]
pub(super) struct Template {
    /// The path and query.
    uri: Uri,
    fixed: HeaderMap,
    content_type: HeaderValue,
    secrets: Vec<SigningSecret>,
}

impl Template {
    pub(super) fn new(
        url: &EndpointUrl,
        ack: AckMode,
        extra: ExtraHeaders,
        secrets: Vec<SigningSecret>,
    ) -> Self {
        const AGENT: &str = concat!("bezoar/", env!("CARGO_PKG_VERSION"));
        let mut fixed = extra.into_map();
        fixed.entry(HOST).or_insert_with(|| url.host());
        fixed.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let usual = match ack {
            AckMode::Status => "application/octet-stream",
            AckMode::Hl7 => hl7::CONTENT_TYPE,
        };
        let content_type = fixed.remove(CONTENT_TYPE).unwrap_or(HeaderValue::from_static(usual));
        Self { uri: path_and_query(url), fixed, content_type, secrets }
    }

    /// The request for a message.
    pub(super) fn request(
        &self,
        context: &Context,
        now: Timestamp,
        traceparent: Option<&str>,
    ) -> Request<Full<Bytes>> {
        let body = context.message.body.reveal();
        let own = context.message.headers.len().min(FORWARDED_LIMIT);
        let mut headers = HeaderMap::with_capacity(self.fixed.len() + OURS + own);
        headers.extend(self.fixed.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.describe(context, &mut headers);
        forward(&context.message.headers, &mut headers);
        // Set it for an empty body too: some servers answer 411 otherwise.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        let traceparent = traceparent.filter(|text| text.is_ascii());
        if let Some(Ok(traceparent)) = traceparent.map(HeaderValue::from_str) {
            headers.insert(TRACEPARENT, traceparent);
        }
        if !self.secrets.is_empty() {
            self.sign(body, now, &mut headers);
        }
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }

    fn describe(&self, context: &Context, headers: &mut HeaderMap) {
        let message = &context.message;
        let redelivered = if context.redelivered { "true" } else { "false" };
        headers.insert(CONTENT_TYPE, self.content_type(message.content_type.as_ref()));
        if let Some(encoding) = content_encoding(&message.headers) {
            headers.insert(CONTENT_ENCODING, encoding);
        }
        headers.insert(ID, header_encoding::value(message.id.as_str()));
        headers.insert(TYPE, header_encoding::value(message.message_type.as_str()));
        headers.insert(QUEUE, header_encoding::value(context.queue.as_str()));
        headers.insert(ATTEMPT, HeaderValue::from(context.attempt));
        headers.insert(DELIVERY, HeaderValue::from(message.ledger.acquired.max(1)));
        headers.insert(REDELIVERED, HeaderValue::from_static(redelivered));
        if let Some(replay) = message.ledger.replay {
            headers.insert(REPLAY, header_encoding::value(&replay.to_string()));
        }
        if let Some(id) = &message.correlation_id {
            headers.insert(CORRELATION_ID, header_encoding::value(id.as_str()));
        }
    }

    /// A content type that is not a valid header value is ignored.
    fn content_type(&self, content_type: Option<&ContentType>) -> HeaderValue {
        content_type
            .map(|it| it.as_str().trim())
            .filter(|it| it.is_ascii())
            .and_then(|it| HeaderValue::from_str(it).ok())
            .unwrap_or_else(|| self.content_type.clone())
    }

    fn sign(&self, body: &[u8], now: Timestamp, headers: &mut HeaderMap) {
        let (id, timestamp) = (headers[ID].clone(), HeaderValue::from(now.as_second()));
        headers.insert(WEBHOOK_SIGNATURE, signature(&self.secrets, &id, &timestamp, body));
        headers.insert(WEBHOOK_ID, id);
        headers.insert(WEBHOOK_TIMESTAMP, timestamp);
    }
}

/// How the sender compressed the body. It is about the body, as its content type is, so it keeps its name.
fn content_encoding(own: &Headers) -> Option<HeaderValue> {
    let (_, value) = own.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"))?;
    let text = value.reveal().as_str();
    HeaderValue::from_str(text).ok().filter(|_| text.is_ascii())
}

/// What a request names of the URL.
fn path_and_query(url: &EndpointUrl) -> Uri {
    url.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default()
}

/// Forwards a message's own headers, sorted by name, and reports how many did not fit.
fn forward(own: &Headers, headers: &mut HeaderMap) {
    let (mut count, mut room) = (0, FORWARDED_LIMIT_BYTES);
    for (name, value) in own {
        let raw = name.len() + value.len();
        if count == FORWARDED_LIMIT || raw > room {
            break;
        }
        let Some(name) = header_encoding::name(PREFIX, name) else { break };
        let value = header_encoding::value(value.reveal());
        let Some(left) = room.checked_sub(name.as_str().len() + value.len()) else { break };
        room = left;
        count += 1;
        headers.append(name, value);
    }
    if count < own.len() {
        headers.insert(LEFT_OUT, HeaderValue::from(own.len() - count));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bezoar::{CorrelationId, Message, MessageId, MessageType, QueueName};

    use super::*;

    fn message() -> Message {
        let (id, message_type) =
            (MessageId::new("m-1").unwrap(), MessageType::new("lab.größe").unwrap());
        Message::new(id, message_type, Timestamp::UNIX_EPOCH, "hello")
    }

    fn request(message: Message, extra: &[(&str, &str)], secrets: &[&str]) -> HeaderMap {
        let mut headers = ExtraHeaders::default();
        extra.iter().for_each(|(name, value)| headers.insert(name, value).unwrap());
        let secrets = secrets.iter().map(|text| text.parse().unwrap()).collect();
        let url: EndpointUrl = "http://example.org:3000/hook?a=b".parse().unwrap();
        let mut context = Context::new(Arc::new(message), QueueName::new("lab/results").unwrap());
        (context.attempt, context.redelivered) = (3, true);
        let now = Timestamp::from_second(1_614_265_330).unwrap();
        let template = Template::new(&url, AckMode::Status, headers, secrets);
        let request = template.request(&context, now, Some("00-ab-cd-01"));
        assert_eq!(request.uri(), "/hook?a=b");
        assert_eq!(request.method(), Method::POST);
        request.into_parts().0.headers
    }

    fn check(headers: &HeaderMap, expected: &[(&str, &str)]) {
        let found: Vec<_> = expected
            .iter()
            .map(|(name, _)| (*name, headers.get(*name).map_or("", |it| it.to_str().unwrap())))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_request_describes_the_message() {
        let message = message()
            .with_correlation_id(CorrelationId::new("c 7").unwrap())
            .with_content_type(ContentType::new("application/json").unwrap())
            .with_header("Tenant", "Süd")
            .with_header("host", "evil");
        let headers = request(message, &[("x-key", "k")], &[]);
        let agent = concat!("bezoar/", env!("CARGO_PKG_VERSION"));
        check(
            &headers,
            &[
                ("host", "example.org:3000"),
                ("user-agent", agent),
                ("content-type", "application/json"),
                ("bezoar-id", "m-1"),
                ("bezoar-type", "lab.gr%C3%B6%C3%9Fe"),
                ("bezoar-correlation-id", "c 7"),
                ("bezoar-queue", "lab/results"),
                ("bezoar-attempt", "3"),
                ("bezoar-delivery", "1"),
                ("bezoar-redelivered", "true"),
                ("bezoar-header-tenant", "S%C3%BCd"),
                ("bezoar-header-host", "evil"),
                ("traceparent", "00-ab-cd-01"),
                ("x-key", "k"),
                ("webhook-signature", ""),
                ("bezoar-headers-left-out", ""),
            ],
        );
        assert_eq!(headers.len(), 15);
    }

    #[test]
    fn the_content_type_is_the_messages_or_the_routes_or_octet_stream() {
        let named = |text| message().with_content_type(ContentType::new(text).unwrap());
        let route = [("content-type", "text/csv")];
        let of = |message, extra| request(message, extra, &[])["content-type"].clone();
        assert_eq!(of(message(), &[]), "application/octet-stream");
        assert_eq!(of(message(), &route), "text/csv");
        assert_eq!(of(named("text/plain"), &route), "text/plain");
        assert_eq!(of(named("text/größe"), &[]), "application/octet-stream");
    }

    #[test]
    fn a_compressed_body_is_delivered_with_its_encoding() {
        let compressed = message().with_header("Content-Encoding", "gzip");
        let headers = request(compressed, &[("content-encoding", "br")], &[]);
        check(
            &headers,
            &[("content-encoding", "gzip"), ("bezoar-header-content-encoding", "gzip")],
        );
        let odd = message().with_header("content-encoding", "gz\u{f6}");
        check(&request(odd, &[], &[]), &[("content-encoding", "")]);
    }

    #[test]
    fn with_a_secret_a_request_is_signed() {
        let headers = request(message(), &[], &["whsec_TWFu"]);
        check(&headers, &[("webhook-id", "m-1"), ("webhook-timestamp", "1614265330")]);
        assert!(headers["webhook-signature"].to_str().unwrap().starts_with("v1,"));
    }

    #[test]
    fn a_route_may_replace_host_and_agent() {
        let headers = request(message(), &[("host", "inner"), ("user-agent", "lab")], &[]);
        check(&headers, &[("host", "inner"), ("user-agent", "lab")]);
    }

    #[test]
    fn headers_beyond_the_limits_are_left_out_and_counted() {
        let many = (0..30_000).fold(message(), |it, n| it.with_header(format!("{n:x}"), ""));
        check(&request(many, &[], &[]), &[("bezoar-headers-left-out", "29936")]);
        let large = message().with_header("a", "x").with_header("b", "ö".repeat(30_000));
        let headers = request(large, &[], &[]);
        check(&headers, &[("bezoar-header-a", "x"), ("bezoar-headers-left-out", "1")]);
    }
}

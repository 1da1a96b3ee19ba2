//! One call to an endpoint, with nothing around it: no blame, no breaker, no rate limit.

use std::{sync::Arc, time::Duration};

use bezoar::{Clock, Context};
use tokio::time::Instant;

use super::{
    CallReport, EndpointClient, EndpointUrl, ExtraHeaders, SigningSecret,
    call_report::CallEnd,
    hl7::{self, Unsendable},
    http_connections::HttpConnections,
    mllp::{self, MllpReceiver},
    options::Traceparent,
    request::Template,
};

/// The maximum duration of a call, whatever is configured.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How an endpoint says that it took a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckMode {
    /// By the status of its reply.
    #[default]
    Status,
    /// By an HL7 v2 acknowledgement in a reply with status 2xx. MLLP has no other way, whatever is set.
    Hl7,
}

/// Where a call goes, and what is sent along.
#[derive(Clone)]
pub struct CallOptions {
    /// The URL of the endpoint.
    pub url: EndpointUrl,
    /// How it says that it took a message.
    pub ack: AckMode,
    /// How long a call may take (at most a day), from the connection to the last byte of the reply.
    pub timeout: Duration,
    /// Headers that are added to each request. They have no meaning for MLLP, nor have the fields below.
    pub headers: ExtraHeaders,
    /// The secrets that sign requests; several while one replaces another.
    pub secrets: Vec<SigningSecret>,
    /// Returns the `traceparent` of a delivery.
    pub traceparent: Option<Traceparent>,
}

impl CallOptions {
    /// 30 s per call, and nothing else.
    pub fn new(url: EndpointUrl) -> Self {
        Self {
            url,
            ack: AckMode::default(),
            timeout: Duration::from_secs(30),
            headers: ExtraHeaders::default(),
            secrets: Vec::new(),
            traceparent: None,
        }
    }
}

/// Calls an endpoint, and reports what came of it.
///
/// It decides nothing: whether to retry, when, and whether the endpoint should be called at all is up to the caller.
/// [`Endpoint`](super::Endpoint) adds the rules of routes; a poison-queue retry processor has rules of its own.
///
/// ```no_run
/// use std::sync::Arc;
/// use bezoar::{Context, Message, QueueName, SystemClock};
/// use bezoar_gateway::endpoint::{CallOptions, ClientOptions, EndpointCaller, EndpointClient, Verdict};
///
/// # async fn example(message: Message) -> Result<(), Box<dyn std::error::Error>> {
/// let client = EndpointClient::new(ClientOptions::default()); // one for all
/// let options = CallOptions::new("https://example.org/results".parse()?);
/// let caller = EndpointCaller::new(options, client, Arc::new(SystemClock));
/// let report = caller.call(&Context::new(Arc::new(message), QueueName::new("results-poison")?)).await;
/// match report.verdict() {
///     Verdict::Accepted => println!("done"),
///     Verdict::Refused => println!("try again: {}", report.code()),
///     Verdict::Rejected => println!("give up: {}", report.code()),
/// }
/// # Ok(()) }
/// ```
pub struct EndpointCaller {
    url: EndpointUrl,
    timeout: Duration,
    protocol: Protocol,
}

enum Protocol {
    Http(Box<HttpCaller>),
    Mllp(Box<MllpReceiver>),
}

struct HttpCaller {
    template: Template,
    ack: AckMode,
    traceparent: Option<Traceparent>,
    connections: HttpConnections,
    clock: Arc<dyn Clock>,
}

/// A message that can be sent.
pub(super) struct Sendable<'c> {
    context: &'c Context,
    /// The control id that its acknowledgement must have; empty if none is expected.
    control_id: &'c [u8],
}

impl EndpointCaller {
    /// A caller that uses `client`; sends nothing yet.
    pub fn new(options: CallOptions, client: EndpointClient, clock: Arc<dyn Clock>) -> Self {
        let protocol = if options.url.is_mllp() {
            Protocol::Mllp(Box::new(MllpReceiver::new(options.url.clone(), client)))
        } else {
            Protocol::Http(Box::new(HttpCaller {
                template: Template::new(
                    &options.url,
                    options.ack,
                    options.headers,
                    options.secrets,
                ),
                ack: options.ack,
                traceparent: options.traceparent,
                connections: client.http(&options.url),
                clock,
            }))
        };
        Self { url: options.url, timeout: options.timeout.min(LONGEST), protocol }
    }

    /// Sends a message once and waits for the reply, for at most [`timeout`](Self::timeout). A request on a reused
    /// connection that gets no reply is sent once more. Dropping the future closes the connection; whether the endpoint
    /// has seen the message is then unknown.
    pub async fn call(&self, context: &Context) -> CallReport {
        match self.prepare(context) {
            Ok(sendable) => self.send(sendable).await,
            Err(unsendable) => CallReport(CallEnd::Unsendable(unsendable)),
        }
    }

    /// Checks whether a message can be sent and acknowledged at all. Sends nothing.
    pub(super) fn prepare<'c>(&self, context: &'c Context) -> Result<Sendable<'c>, Unsendable> {
        let body = context.message.body.reveal();
        let control_id = match &self.protocol {
            Protocol::Http(http) if http.ack == AckMode::Status => &[],
            Protocol::Http(_) => hl7::control_id(body)?,
            Protocol::Mllp(_) => {
                mllp::check(body)?;
                hl7::control_id(body)?
            }
        };
        Ok(Sendable { context, control_id })
    }

    pub(super) async fn send(&self, sendable: Sendable<'_>) -> CallReport {
        let deadline = Instant::now() + self.timeout;
        match &self.protocol {
            Protocol::Http(http) => http.send(sendable, deadline).await,
            Protocol::Mllp(receiver) => {
                let body = sendable.context.message.body.reveal();
                match receiver.exchange(body, sendable.control_id, deadline).await {
                    Ok(ack) => CallReport(CallEnd::Acknowledged { ack, status: None }),
                    Err(no_reply) => CallReport(CallEnd::NoReply(no_reply)),
                }
            }
        }
    }

    /// The maximum duration of a call.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Where calls go. Only its origin is printed.
    pub fn url(&self) -> &EndpointUrl {
        &self.url
    }
}

impl HttpCaller {
    async fn send(&self, sendable: Sendable<'_>, deadline: Instant) -> CallReport {
        let Sendable { context, control_id } = sendable;
        let traceparent = self.traceparent.as_ref().and_then(|of| of(context));
        let now = self.clock.now();
        let request = || self.template.request(context, now, traceparent.as_deref());
        CallReport(match self.connections.send(request, self.ack, deadline).await {
            Err(no_reply) => CallEnd::NoReply(no_reply),
            Ok(reply) => match self.ack {
                AckMode::Hl7 if reply.is_readable_success() => CallEnd::Acknowledged {
                    ack: hl7::acknowledgement(reply.whole_lines(), control_id),
                    status: Some(reply.status),
                },
                _ => CallEnd::Replied(reply),
            },
        })
    }
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("url", &self.url)
            .field("ack", &self.ack)
            .field("timeout", &self.timeout)
            .field("headers", &self.headers)
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EndpointCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointCaller").field("url", &self.url).finish_non_exhaustive()
    }
}

//! One call to an endpoint, with nothing around it: no blame, no breaker, no rate limit.

use std::{sync::Arc, time::Duration};

use bezoar::{Clock, Context};
use tokio::time::Instant;

use super::{
    CallReport, EndpointClient, EndpointUrl, ExtraHeaders, SigningSecret, options::Traceparent,
    request::Template,
};

/// The maximum duration of a call, whatever is configured.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a call goes, and what is sent along.
#[derive(Clone)]
pub struct CallOptions {
    /// The URL of the endpoint.
    pub url: EndpointUrl,
    /// How long a call may take (at most a day), from the connection to the last byte of the reply.
    pub timeout: Duration,
    /// Headers that are added to each request.
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
    template: Template,
    timeout: Duration,
    traceparent: Option<Traceparent>,
    client: EndpointClient,
    clock: Arc<dyn Clock>,
}

impl EndpointCaller {
    /// A caller that uses `client`; sends nothing yet.
    pub fn new(options: CallOptions, client: EndpointClient, clock: Arc<dyn Clock>) -> Self {
        Self {
            template: Template::new(&options.url, options.headers, options.secrets),
            url: options.url,
            timeout: options.timeout.min(LONGEST),
            traceparent: options.traceparent,
            client,
            clock,
        }
    }

    /// Sends a message once and waits for the reply, for at most [`timeout`](Self::timeout). A request on a reused
    /// connection that gets no reply is sent once more. Dropping the future closes the connection; whether the endpoint
    /// has seen the message is then unknown.
    pub async fn call(&self, context: &Context) -> CallReport {
        let deadline = Instant::now() + self.timeout;
        let traceparent = self.traceparent.as_ref().and_then(|of| of(context));
        let request = self.template.request(context, self.clock.now(), traceparent);
        self.client.send(request, deadline).await.into()
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

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("url", &self.url)
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

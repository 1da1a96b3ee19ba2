//! Routes that are ready to start: everything that can fail has succeeded.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use anyhow::Result;
use bezoar::{Clock, Worker, blame::BlameOptions, ops::Reporting};

use super::Gateway;
use crate::{
    app::ErrorTexts,
    config::{self, DeadLetterMode},
    endpoint::{
        CallOptions, Endpoint, EndpointClient, EndpointOptions, PauseRequest, RateLimit,
        RouteBreaker,
    },
    route::{GONE, Route, RouteGate, RouteSource},
    telemetry::{MeasureLayer, RouteMetrics, TraceLayer},
};

/// How much longer a worker waits than its endpoint, so that the endpoint's more specific failure is recorded.
const MARGIN: Duration = Duration::from_secs(5);

/// A route that takes no messages yet.
pub(super) struct PreparedRoute {
    source: RouteSource,
    config: config::RouteConfig,
    worker: Worker,
    gate: Arc<RouteGate>,
    metrics: RouteMetrics,
}

impl PreparedRoute {
    pub(super) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    /// Whether the configuration says that it is paused.
    pub(super) fn is_paused_by_configuration(&self) -> bool {
        self.config.paused
    }

    /// Starts it, paused if there is a reason.
    pub(super) fn start(self, paused: Option<&'static str>) -> Arc<Route> {
        let Self { source, config, worker, gate, metrics } = self;
        if let Some(why) = paused {
            gate.pause(why);
        }
        let (name, queue, to) = (config.name.clone(), config.from.clone(), config.to.clone());
        let route = Route::start(source, config, worker, gate, metrics);
        tracing::info!(route = name.as_str(), %queue, to = to.origin(), "route started");
        Arc::new(route)
    }
}

impl Gateway {
    /// Prepares a route. Changes nothing.
    pub(super) fn prepare_route(
        &self,
        config: &config::RouteConfig,
        client: &EndpointClient,
    ) -> Result<PreparedRoute> {
        let name = config.name.as_str();
        let breaker = self.origins.breaker(name, config.to.origin(), blame(config));
        let gate = Arc::new(RouteGate::new(breaker.clone(), None));
        let metrics = self.app.metrics.route(name);
        let endpoint = self.endpoint(config, breaker, gate.clone(), client);
        let worker = Worker::new(config.from.as_str(), endpoint.clone())?
            .policy(config.retry)
            .uncounted(config.uncounted)
            .immediate_retries(config.immediate_retries)
            .max_deliveries(config.max_deliveries)
            .timeout(endpoint.longest() + MARGIN)
            .lease(config.lease)
            .correlation_ids(self.app.correlation.ids())
            .layer(TraceLayer::new(name))
            .layer(MeasureLayer::new(metrics.clone()))
            .observer(metrics.observer());
        let worker = self.consume(worker, config);
        let worker = match self.app.error_texts {
            ErrorTexts::Hidden => worker,
            ErrorTexts::ShownForDevelopment => worker.show_error_texts_for_development(),
        };
        worker.check()?;
        let (source, config) = (self.source(config), config.clone());
        Ok(PreparedRoute { source, config, worker, gate, metrics })
    }

    /// Sets how the messages of a route are fetched, and how many at a time.
    fn consume(&self, worker: Worker, config: &config::RouteConfig) -> Worker {
        match super::lock(&self.config).broker(&config.from) {
            Some((broker, _)) => broker.settings.of_kind().consume(worker, config.concurrency),
            None => worker.concurrency(config.concurrency),
        }
    }

    /// The source of a route's messages. Outcomes of messages that were replayed to a broker are reported to the catalogue.
    fn source(&self, config: &config::RouteConfig) -> RouteSource {
        let Some(broker) = self.app.broker(&config.from) else {
            let bezoar = &self.app.bezoar;
            let (transport, admin) = (bezoar.transport().clone(), bezoar.admin().clone());
            return RouteSource { transport, admin, catalogue: self.app.catalogue.clone() };
        };
        let mode = config.dead_letter.unwrap_or(DeadLetterMode::Publish);
        let broker = Arc::new(broker.dead_lettering(mode));
        let transport = Reporting::new(broker.clone(), self.app.catalogue.clone());
        let transport = match mode {
            DeadLetterMode::Publish => transport,
            // Whether its dead letters are taken in or stay there: the broker keeps neither reason nor history.
            DeadLetterMode::Reject => transport.announcing(),
        };
        let catalogue = self.app.catalogue.clone();
        RouteSource { transport: Arc::new(transport), admin: broker, catalogue }
    }

    fn endpoint(
        &self,
        config: &config::RouteConfig,
        breaker: RouteBreaker,
        gate: Arc<RouteGate>,
        client: &EndpointClient,
    ) -> Endpoint {
        let (correlation, name) = (self.app.correlation, config.name.as_str().to_owned());
        let pause = move |request: PauseRequest| {
            let code = request.code.as_str();
            tracing::error!(
                route = name,
                code,
                "route paused: its endpoint must not be called any more"
            );
            gate.pause(if code == "http.410" {
                GONE
            } else {
                "the endpoint's address is not allowed"
            });
        };
        let call = CallOptions {
            ack: config.ack_mode(),
            timeout: config.timeout,
            headers: config.extra_headers(),
            secrets: config.signing_secrets(),
            traceparent: Some(Arc::new(move |context| correlation.outgoing(context))),
            ..CallOptions::new(config.to.clone())
        };
        let options = EndpointOptions {
            call,
            breaker,
            max_retry_after: config.max_retry_after,
            rate: config.rate.map(rate),
            on_pause: Some(Arc::new(pause)),
        };
        let clock: Arc<dyn Clock> = self.app.clock.clone();
        Endpoint::new(options, client.with_tls(config.tls.options()), clock)
    }
}

fn blame(config: &config::RouteConfig) -> BlameOptions {
    let concurrency = NonZeroU32::new(config.concurrency).unwrap_or(NonZeroU32::MIN);
    BlameOptions { breaker: config.breaker, concurrency }
}

/// The burst is what the rate allows in a second, and at least one.
fn rate(rate: config::human::Rate) -> RateLimit {
    let each = rate.per() / rate.count().get();
    let in_a_second = u32::try_from(Duration::from_secs(1).as_nanos() / each.as_nanos().max(1))
        .unwrap_or(u32::MAX);
    RateLimit { each, burst: NonZeroU32::new(in_a_second).unwrap_or(NonZeroU32::MIN) }
}

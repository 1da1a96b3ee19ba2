//! A running gateway: opened, reloaded and stopped as one.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    num::NonZeroU32,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bezoar::{
    Bezoar, Clock, Shutdown, SystemClock, Worker,
    blame::BlameOptions,
    catalogue::Catalogue,
    ops::{Conductor, Reporting},
    sqlite,
};
use secrecy::SecretString;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

use crate::{
    access::{Access, Identity},
    api,
    app::{App, EditRules, ErrorTexts, LiveSettings},
    background,
    broker::Broker,
    config::{self, Config, DeadLetterMode, Reload, Role, Watch},
    dead_letter_intake::Intakes,
    endpoint::{
        ClientOptions, Endpoint, EndpointClient, EndpointOptions, Origins, PauseRequest, RateLimit,
        RouteBreaker,
    },
    route::{GONE, Route, RouteGate, RouteSource, paused_by, paused_setting},
    server,
    telemetry::{Correlation, MeasureLayer, Metrics, TraceLayer},
    token,
};

/// What a worker waits beyond its endpoint's own deadline, so that the clearer failure is recorded.
const MARGIN: Duration = Duration::from_secs(5);

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    app: Arc<App>,
    config: Mutex<Config>,
    client: Mutex<EndpointClient>,
    /// Routes to the same origin tell each other whether it can be reached.
    origins: Origins,
    /// Routes that a reload has ended, and whose last deliveries may still be under way.
    ending: Mutex<Vec<Arc<Route>>>,
    token: Option<GeneratedToken>,
    serving: JoinHandle<()>,
    background: JoinSet<()>,
}

/// The token of a gateway for which none is configured.
#[derive(Debug, Clone)]
pub struct GeneratedToken {
    /// Where it is kept.
    pub file: PathBuf,
    /// The token itself, if it was made just now.
    pub new: Option<SecretString>,
}

impl Gateway {
    /// Opens the store, starts the routes and listens. What is told goes to `metrics` and the log.
    ///
    /// # Errors
    ///
    /// If the store cannot be used or the address is taken, with what to do about it.
    pub async fn start(config: Config, metrics: Metrics) -> Result<Self> {
        Self::start_with(config, metrics, ErrorTexts::Hidden).await
    }

    /// The same, and says whether the log shows the texts of errors.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub async fn start_with(
        config: Config,
        metrics: Metrics,
        error_texts: ErrorTexts,
    ) -> Result<Self> {
        let listener = TcpListener::bind(config.server.listen).await.with_context(|| {
            format!("cannot listen on {}; is another gateway running? server.listen sets another address", config.server.listen)
        })?;
        let (bezoar, catalogue) = open(&config).await?;
        let brokers = brokers(&config)?;
        for queue in config.all_queues().iter().filter(|queue| config.broker(queue).is_none()) {
            bezoar.admin().provision(queue).await?;
        }
        let (access, token) = access(&config)?;
        let app = Arc::new(App {
            bezoar,
            brokers,
            conductor: Conductor::new(catalogue.clone()),
            catalogue,
            clock: Arc::new(SystemClock),
            listen: listener.local_addr()?,
            max_body_bytes: usize::try_from(config.server.max_body_bytes)?,
            room: Semaphore::new(config.server.max_in_flight as usize),
            metrics,
            correlation: if config.telemetry.correlation {
                Correlation::On
            } else {
                Correlation::Off
            },
            error_texts,
            shutdown: Shutdown::default(),
            intakes: Intakes::default(),
            full: Mutex::default(),
            live: RwLock::new(LiveSettings {
                access,
                queues: config.all_queues(),
                editable: editable(&config),
                ..LiveSettings::default()
            }),
        });
        let serving = server::serve(
            listener,
            api::router(app.clone()),
            app.shutdown.clone(),
            config.server.drain,
        );
        let gateway = Self {
            client: Mutex::new(client(&config)),
            origins: Origins::default(),
            ending: Mutex::default(),
            token,
            serving: tokio::spawn(serving),
            background: background::start(&app, &config),
            app,
            config: Mutex::new(config.clone()),
        };
        for route in &config.routes {
            gateway.start_route(route, config.watch(&route.from)).await?;
        }
        gateway.app.intakes.follow(&gateway.app, &config);
        gateway.warn_of_unconfigured().await;
        Ok(gateway)
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.app.listen
    }

    /// The token that was generated, if none is configured.
    pub fn token(&self) -> Option<&GeneratedToken> {
        self.token.as_ref()
    }

    /// Takes over what another configuration changes, as far as that goes without a restart. Routes that are
    /// gone or changed let what is in flight finish first; the others are not disturbed.
    ///
    /// # Errors
    ///
    /// If a new queue or route cannot be had; what was changed before stays changed.
    pub async fn reload(&self, new: Config) -> Result<Reload> {
        let reload = lock(&self.config).differences(&new);
        for queue in &reload.queues_added {
            match queue.as_str().split_once('/') {
                None => self.app.bezoar.admin().provision(queue).await?,
                Some((name, _)) if self.app.brokers.contains_key(name) => (),
                Some((name, _)) => bail!("transports.{name} is there after a restart only"),
            }
        }
        if reload.network_changed {
            *lock(&self.client) = client(&new);
        }
        let mut ending: Vec<_> =
            reload.routes_removed.iter().chain(&reload.routes_changed).collect();
        if reload.network_changed {
            ending.extend(&reload.routes_unchanged);
        }
        self.end_routes(ending.iter().map(|name| name.as_str()));
        for route in &new.routes {
            if self.app.route(route.name.as_str(), |_| true).is_err() {
                self.start_route(route, new.watch(&route.from)).await?;
            }
        }
        self.change(|live| {
            live.queues = new.all_queues();
            live.editable = editable(&new);
        });
        self.app.intakes.follow(&self.app, &new);
        if reload.tokens_changed {
            let (access, _) = access(&new)?;
            self.change(|live| live.access = access);
        }
        self.warn_of_unconfigured().await;
        let mut config = lock(&self.config);
        *config = config.reloaded(new);
        drop(config);
        Ok(reload)
    }

    /// Stops accepting, lets what is in flight finish within the configured time, hands back the rest.
    pub async fn stop(mut self) {
        let grace = lock(&self.config).server.drain;
        self.app.shutdown.drain();
        self.background.abort_all();
        let mut routes = self.app.routes();
        routes.append(&mut lock(&self.ending));
        routes.iter().for_each(|route| route.drain());
        let all = async {
            for route in &routes {
                route.stopped().await;
            }
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            routes.iter().for_each(|route| route.abort());
            for route in &routes {
                route.stopped().await;
            }
        }
        self.app.intakes.stop().await;
        let _ = self.serving.await;
    }

    async fn start_route(&self, config: &config::RouteConfig, watch: Watch) -> Result<()> {
        let name = config.name.as_str();
        let breaker = self.origins.breaker(name, config.to.origin(), blame(config));
        let paused = match self.app.catalogue.setting(&paused_setting(name)).await? {
            Some(setting) => Some(paused_by(&setting)),
            None => config.paused.then_some("paused by configuration"),
        };
        let gate = Arc::new(RouteGate::new(breaker.clone(), paused));
        let metrics = self.app.metrics.route(name);
        let endpoint = self.endpoint(config, breaker, gate.clone());
        let worker = Worker::new(config.from.as_str(), endpoint.clone())?
            .policy(config.retry)
            .uncounted(config.uncounted)
            .immediate_retries(config.immediate_retries)
            .max_deliveries(config.max_deliveries)
            .timeout(endpoint.longest() + MARGIN)
            .concurrency(config.concurrency)
            .lease(config.lease)
            .correlation_ids(self.app.correlation.ids())
            .layer(TraceLayer::new(name))
            .layer(MeasureLayer::new(metrics.clone()))
            .observer(metrics.observer());
        let worker = match self.app.error_texts {
            ErrorTexts::Hidden => worker,
            ErrorTexts::ShownForDevelopment => worker.show_error_texts_for_development(),
        };
        let source = self.source(config, watch);
        let route = Route::start(source, config.clone(), worker, gate, metrics);
        self.change(|live| live.routes.insert(name.to_owned(), Arc::new(route)));
        tracing::info!(route = name, queue = %config.from, to = config.to.origin(), "route started");
        Ok(())
    }

    /// Where a route's messages come from. What was replayed to a broker is reported when it is done.
    fn source(&self, config: &config::RouteConfig, watch: Watch) -> RouteSource {
        let Some(broker) = self.app.broker(&config.from) else {
            let bezoar = &self.app.bezoar;
            let (transport, admin) = (bezoar.transport().clone(), bezoar.admin().clone());
            return RouteSource { transport, admin, catalogue: self.app.catalogue.clone() };
        };
        let mode = config.dead_letter.unwrap_or(DeadLetterMode::Publish);
        let broker = Arc::new(broker.dead_lettering(mode));
        let transport = Reporting::new(broker.clone(), self.app.catalogue.clone());
        let transport = match (mode, watch) {
            (DeadLetterMode::Reject, Watch::Take) => transport.announcing(),
            _ => transport,
        };
        let catalogue = self.app.catalogue.clone();
        RouteSource { transport: Arc::new(transport), admin: broker, catalogue }
    }

    fn endpoint(
        &self,
        config: &config::RouteConfig,
        breaker: RouteBreaker,
        gate: Arc<RouteGate>,
    ) -> Endpoint {
        let (correlation, name) = (self.app.correlation, config.name.as_str().to_owned());
        let pause = move |request: PauseRequest| {
            let code = request.code.as_str();
            tracing::error!(
                route = name,
                code,
                "the route was paused: its endpoint must not be called any more"
            );
            gate.pause(if code == "http.410" { GONE } else { "its address may not be dialled" });
        };
        let options = EndpointOptions {
            timeout: config.timeout,
            headers: config.extra_headers(),
            secrets: config.signing_secrets(),
            breaker,
            max_retry_after: config.max_retry_after,
            rate: config.rate.map(rate),
            traceparent: Some(Arc::new(move |context| correlation.outgoing(context))),
            on_pause: Some(Arc::new(pause)),
            ..EndpointOptions::new(config.to.clone())
        };
        let clock: Arc<dyn Clock> = self.app.clock.clone();
        Endpoint::new(options, lock(&self.client).clone(), clock)
    }

    /// They take no more messages. What they have in hand may take as long as it takes: whoever comes after them
    /// does not wait for it, because a message is leased to one of them.
    fn end_routes<'n>(&self, names: impl Iterator<Item = &'n str>) {
        let ended = names.filter_map(|name| self.change(|live| live.routes.remove(name)));
        let mut ending = lock(&self.ending);
        ending.retain(|route| !route.has_stopped());
        ending.extend(ended.inspect(|route| route.drain()));
    }

    /// What waits in a queue that is configured no more would otherwise be forgotten.
    async fn warn_of_unconfigured(&self) {
        let Ok(stored) = self.app.bezoar.admin().queues().await else { return };
        let configured = self.app.queues();
        for queue in stored.iter().filter(|queue| !configured.contains(*queue)) {
            let Ok(depth) = self.app.bezoar.admin().depth(queue).await else { continue };
            let waiting: u64 =
                [depth.ready, depth.delayed, depth.leased].into_iter().flatten().sum();
            let dead = depth.dead.unwrap_or_default();
            if waiting + dead > 0 {
                tracing::warn!(%queue, waiting, dead, "this queue is configured no more, and holds messages");
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut LiveSettings) -> T) -> T {
        change(&mut self.app.live.write().unwrap_or_else(PoisonError::into_inner))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn blame(config: &config::RouteConfig) -> BlameOptions {
    let concurrency = NonZeroU32::new(config.concurrency).unwrap_or(NonZeroU32::MIN);
    BlameOptions { breaker: config.breaker, concurrency }
}

/// So many at once after a rest as the rate allows in a second, and one at least.
fn rate(rate: config::human::Rate) -> RateLimit {
    let each = rate.per() / rate.count().get();
    let in_a_second = u32::try_from(Duration::from_secs(1).as_nanos() / each.as_nanos().max(1))
        .unwrap_or(u32::MAX);
    RateLimit { each, burst: NonZeroU32::new(in_a_second).unwrap_or(NonZeroU32::MIN) }
}

/// Opens the store, in a folder that is made if it is not there.
async fn open(config: &Config) -> Result<(Bezoar, Arc<dyn Catalogue>)> {
    let path = config.store.path().to_owned();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let max_message_bytes = usize::try_from(config.server.max_body_bytes)?;
    let max_bytes = config.store.max_size_bytes;
    let options = sqlite::Options { max_message_bytes, max_bytes, ..sqlite::Options::new(&path) };
    let opened = tokio::task::spawn_blocking(|| sqlite::SqliteTransport::open(options)).await?;
    let store = opened.with_context(|| format!("cannot use the store {}", path.display()))?;
    Ok((Bezoar::new(store.clone()), Arc::new(store)))
}

fn brokers(config: &Config) -> Result<BTreeMap<String, Broker>> {
    let open = |transport: &config::TransportConfig| {
        let broker = Broker::open(transport, config)?;
        Ok((transport.name.to_string(), broker))
    };
    config.transports.iter().map(open).collect()
}

fn editable(config: &Config) -> EditRules {
    let rules = &config.dead_letters;
    EditRules { queues: rules.editable.clone(), approval: rules.approval }
}

fn client(config: &Config) -> EndpointClient {
    let network = config.network.rule(&config.server);
    EndpointClient::new(ClientOptions { network, ..ClientOptions::default() })
}

/// Who may do what: as configured, or whoever can read a file that only our user can.
fn access(config: &Config) -> Result<(Arc<Access>, Option<GeneratedToken>)> {
    if config.tokens.is_empty() {
        let folder = config.store.path().parent().map(ToOwned::to_owned).unwrap_or_default();
        let (secret, new) = token::read_or_make(&folder).with_context(|| {
            format!("cannot keep a token in {}", folder.join(token::FILE).display())
        })?;
        let identity = Identity { name: "local".to_owned(), role: Role::Admin, queues: None };
        let generated =
            GeneratedToken { file: folder.join(token::FILE), new: new.then(|| secret.clone()) };
        return Ok((Arc::new(Access::new([(secret, identity)])), Some(generated)));
    }
    let tokens = config.tokens.iter().map(|token| {
        let identity = Identity {
            name: token.name.as_str().to_owned(),
            role: token.role,
            queues: token.queues.clone(),
        };
        (SecretString::from(token.secret.reveal().to_owned()), identity)
    });
    Ok((Arc::new(Access::new(tokens)), None))
}

//! `bezoar up`: runs the gateway.

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use bezoar_gateway::{
    Deliveries, ErrorTexts, Gateway,
    config::{self, Config, Loaded, Sources},
    telemetry::{LogDirectives, LogFormat, LogOptions, Telemetry, TelemetryOptions},
};
use secrecy::ExposeSecret;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::interval,
};

use crate::{
    client,
    humanize::{self, plural},
    notify,
};

/// The configuration file, unless another one is given.
const FILE: &str = "bezoar.toml";
/// How long the last export of telemetry may take.
const LAST_EXPORT: Duration = Duration::from_secs(5);
/// How often a stop says what it waits for.
const WAITING_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    /// For development only: show error texts in the log, which may contain personal data
    #[arg(long)]
    show_error_texts: bool,
}

impl Arguments {
    fn error_texts(&self) -> ErrorTexts {
        if self.show_error_texts { ErrorTexts::ShownForDevelopment } else { ErrorTexts::Hidden }
    }
}

/// The sources of the configuration.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Configuration {
    /// Configuration file [default: bezoar.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "BEZOAR_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Set a value, overriding file and environment; may be repeated: server.listen=127.0.0.1:9000
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Deliver the messages of a queue to an endpoint, in addition to the routes of the file; may be repeated:
    /// results=http://localhost:3000/
    #[arg(long = "route", value_name = "QUEUE=URL", value_parser = pair)]
    routes: Vec<(String, String)>,
}

/// The configuration is invalid: exit code 78.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadConfiguration(pub(crate) String);

impl Configuration {
    /// Loads all sources.
    pub(crate) fn load(&self) -> Result<Loaded> {
        let mut sources = Sources {
            file: self.read_file()?,
            environment: environment(),
            flags: self.set.clone(),
        };
        sources.flags.extend(self.route_flags(&sources));
        let loaded = config::load(&sources, &config::read_secret);
        loaded.map_err(|problems| BadConfiguration(problems.to_string()).into())
    }

    /// Where the gateway that was started in this folder listens and stores its messages.
    pub(crate) fn of_this_folder() -> Result<Config> {
        let file = Self::of_environment().read_file()?;
        let sources = Sources { file, environment: environment(), flags: Vec::new() };
        let found = config::load_to_find_gateway(&sources);
        found.map_err(|problems| BadConfiguration(problems.to_string()).into())
    }

    /// What a command uses that has no flags for it.
    fn of_environment() -> Self {
        let config = std::env::var_os("BEZOAR_CONFIG").map(PathBuf::from);
        Self { config, set: Vec::new(), routes: Vec::new() }
    }

    /// The configuration file that commands in this folder use, if there is one.
    pub(crate) fn file_of_this_folder() -> Option<PathBuf> {
        Self::of_environment().file()
    }

    /// The configuration file that is read, if there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let here = || Some(PathBuf::from(FILE)).filter(|file| file.exists());
        self.config.clone().or_else(here)
    }

    fn read_file(&self) -> Result<Option<(PathBuf, String)>> {
        let path = self.config.clone().unwrap_or_else(|| PathBuf::from(FILE));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.config.is_none() => {
                Ok(None)
            }
            Err(error) => {
                Err(BadConfiguration(format!("cannot read {}: {error}", path.display())).into())
            }
        }
    }

    /// The keys of `--route`, after the routes that are configured elsewhere.
    fn route_flags(&self, sources: &Sources) -> Vec<(String, String)> {
        if self.routes.is_empty() {
            return Vec::new();
        }
        // Invalid routes are reported when everything is loaded.
        let first = config::load_to_find_gateway(sources).map_or(0, |config| config.routes.len());
        let keys = |(index, (queue, url)): (usize, &(String, String))| {
            let name = queue.replace('/', "-");
            [("name", name), ("from", queue.clone()), ("to", url.clone())]
                .map(|(key, value)| (format!("route[{index}].{key}"), value))
        };
        (first..).zip(&self.routes).flat_map(keys).collect()
    }
}

/// Splits the value of a flag at its first `=`.
fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("expected a name and a value, joined by =")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Ignores variables that are not UTF-8: none of ours are.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let loaded = arguments.configuration.load()?;
    let telemetry = Telemetry::start(&telemetry_options(&loaded.config))?;
    Telemetry::log_panics_without_text();
    for warning in &loaded.warnings {
        telemetry.say(&format!("bezoar: warning: {warning}"));
    }
    let outcome = serve(&arguments, &loaded.config, &telemetry).await;
    // Also if it did not start: the log is written by another thread.
    let _ = telemetry.shutdown(LAST_EXPORT).await;
    outcome
}

/// Runs the gateway until a signal stops it.
async fn serve(arguments: &Arguments, config: &Config, telemetry: &Telemetry) -> Result<()> {
    let error_texts = arguments.error_texts();
    if error_texts == ErrorTexts::ShownForDevelopment {
        telemetry.say(
            "bezoar: WARNING: --show-error-texts: the log shows error texts, which may contain personal data",
        );
    }
    bezoar_gateway::raise_open_file_limit();
    let mut signals = Signals::listen()?;
    let metrics = telemetry.metrics().clone();
    let gateway = Gateway::start_with(config.clone(), metrics, error_texts).await?;
    announce(&gateway, config, telemetry);
    notify::tell(notify::READY);
    let mut received = signals.next().await;
    while received == ProcessSignal::Reload {
        received = tokio::select! {
            () = reload(&gateway, &arguments.configuration, telemetry) => signals.next().await,
            stop = signals.stop() => stop,
        };
    }
    notify::tell(notify::STOPPING);
    let deliveries = gateway.deliveries();
    tokio::select! {
        () = gateway.stop() => tracing::info!("stopped"),
        () = say_what_is_awaited(&deliveries, config, telemetry) => {}
        _ = signals.next() => telemetry.say("bezoar: aborted; messages in flight will be delivered again"),
    }
    Ok(())
}

/// Says again and again which deliveries keep the gateway from stopping.
async fn say_what_is_awaited(deliveries: &Deliveries, config: &Config, telemetry: &Telemetry) {
    let mut ticks = interval(WAITING_EVERY);
    loop {
        ticks.tick().await; // the first comes at once
        let waiting = deliveries.in_progress();
        if waiting.is_empty() {
            continue;
        }
        let total = plural(waiting.iter().map(|(_, count)| count).sum(), "message");
        let routes: Vec<_> =
            waiting.iter().map(|(route, count)| format!("{route}: {count}")).collect();
        let (routes, drain) = (routes.join(", "), humanize::duration(config.server.drain));
        let words = format!("stopping: waiting up to {drain} for {total} in flight ({routes})");
        match config.log.format {
            config::LogFormat::Json => tracing::info!("{words}"),
            config::LogFormat::Text => {
                telemetry.say(&format!("bezoar: {words}; press Ctrl-C again to abort"));
            }
        }
    }
}

fn telemetry_options(config: &Config) -> TelemetryOptions {
    let format = match config.log.format {
        config::LogFormat::Text => LogFormat::Text,
        config::LogFormat::Json => LogFormat::Json,
    };
    TelemetryOptions {
        service_name: config.telemetry.service_name.as_str().to_owned(),
        log: LogOptions { format, filter: config.log.directives().to_owned() },
        traces: config.telemetry.traces,
        metrics: config.telemetry.metrics,
        otlp_endpoint: config.telemetry.otlp_endpoint.as_ref().map(|url| url.uri().to_string()),
        ..TelemetryOptions::default()
    }
}

/// Reloads the configuration. One that is invalid or cannot take effect changes nothing.
async fn reload(gateway: &Gateway, configuration: &Configuration, telemetry: &Telemetry) {
    let reloaded = async {
        let loaded = configuration.load()?;
        let filter = LogDirectives::parse(loaded.config.log.directives())?;
        let changes = gateway.reload(loaded.config).await?;
        telemetry.set_log_filter(filter);
        anyhow::Ok(changes)
    };
    match reloaded.await {
        Ok(changes) => tracing::warn!(
            routes_added = changes.routes_added.len(),
            routes_changed = changes.routes_changed.len(),
            routes_removed = changes.routes_removed.len(),
            queues_added = changes.queues_added.len(),
            poison_retries_changed = changes.poison_retries_changed.len(),
            tokens_changed = changes.tokens_changed,
            needs_restart = changes.restart.join(", "),
            "configuration reloaded"
        ),
        Err(error) => {
            tracing::error!("configuration not reloaded, nothing has changed: {error:#}");
        }
    }
}

/// Prints the banner: the address, the token, and how to send a message. With JSON logs it is a log line.
fn announce(gateway: &Gateway, config: &Config, telemetry: &Telemetry) {
    let (address, store) = (gateway.address(), &config.store);
    if config.log.format == config::LogFormat::Json {
        let token_file = gateway.token().map(|token| token.file.display().to_string());
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(%store, token_file, version, "listening on http://{address}");
        return;
    }
    telemetry.say(&format!(
        "bezoar {} listening on http://{address}, storing messages in {store}",
        env!("CARGO_PKG_VERSION")
    ));
    let authorization = match gateway.token() {
        Some(token) => {
            let file = token.file.display();
            match &token.new {
                Some(secret) if std::io::stderr().is_terminal() => {
                    let secret = secret.expose_secret();
                    telemetry.say(&format!("generated an API token: {secret} (stored in {file})"));
                }
                // Journals and log collectors keep what they get, and more people read them than the file.
                Some(_) => telemetry.say(&format!("generated an API token, stored in {file}")),
                None => (),
            }
            format!("-H \"Authorization: Bearer $(cat {})\"", token.file.display())
        }
        None => "-H \"Authorization: Bearer $TOKEN\"".to_owned(),
    };
    let delivered = config.routes.first().map(|route| route.from.clone());
    let queue = delivered.or_else(|| config.all_queues().into_iter().next());
    let queue = queue.map_or("default".to_owned(), |queue| queue.as_str().to_owned());
    let segment = client::encode(&queue);
    telemetry.say(&format!(
        "\nsend a message, in this folder or from anywhere:\n  bezoar send {queue} --body '{{\"hello\": 1}}'\n  curl {authorization} http://{address}/v1/queues/{segment}/messages -H 'Content-Type: application/json' -d '{{\"hello\": 1}}'"
    ));
    if config.routes.is_empty() && config.poison_retries.is_empty() {
        telemetry.say(&format!(
            "\nno routes configured: the gateway delivers nothing. To deliver messages to your endpoint, restart with:\n  \
             bezoar up --route {queue}=http://localhost:3000/\nor add a [[route]] to bezoar.toml"
        ));
    }
    if std::io::stderr().is_terminal() {
        telemetry.say("\npress Ctrl-C to stop");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessSignal {
    Stop,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let signal = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT and ignores SIGHUP.
    async fn stop(&mut self) -> ProcessSignal {
        tokio::select! {
            _ = self.terminate.recv() => ProcessSignal::Stop,
            _ = self.interrupt.recv() => ProcessSignal::Stop,
        }
    }

    async fn next(&mut self) -> ProcessSignal {
        tokio::select! {
            _ = self.terminate.recv() => ProcessSignal::Stop,
            _ = self.interrupt.recv() => ProcessSignal::Stop,
            _ = self.hang_up.recv() => ProcessSignal::Reload,
        }
    }
}

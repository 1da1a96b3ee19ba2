//! `bezoar up`: runs the gateway.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use bezoar_gateway::{
    ErrorTexts, Gateway,
    config::{self, Config, Loaded, Sources},
    telemetry::{LogDirectives, LogFormat, LogOptions, Telemetry, TelemetryOptions},
};
use secrecy::ExposeSecret;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::notify;

/// The configuration file, unless another one is given.
const FILE: &str = "bezoar.toml";
/// How long the last export of telemetry may take.
const LAST_EXPORT: Duration = Duration::from_secs(5);

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
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// The configuration is invalid: exit code 78.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadConfiguration(pub(crate) String);

impl Configuration {
    /// Loads all sources.
    pub(crate) fn load(&self) -> Result<Loaded> {
        let sources =
            Sources { file: self.read_file()?, environment: environment(), flags: self.flags()? };
        let loaded = config::load(&sources, &config::read_secret);
        loaded.map_err(|problems| BadConfiguration(problems.to_string()).into())
    }

    /// Where the gateway that was started in this folder listens and stores its messages.
    pub(crate) fn of_this_folder() -> Result<Config> {
        let config = std::env::var_os("BEZOAR_CONFIG").map(PathBuf::from);
        let file = Self { config, set: Vec::new() }.read_file()?;
        let sources = Sources { file, environment: environment(), flags: Vec::new() };
        let found = config::load_to_find_gateway(&sources);
        found.map_err(|problems| BadConfiguration(problems.to_string()).into())
    }

    /// Whether commands in this folder find a configuration file.
    pub(crate) fn is_in_this_folder() -> bool {
        std::env::var_os("BEZOAR_CONFIG").is_some() || Path::new(FILE).exists()
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

    fn flags(&self) -> Result<Vec<(String, String)>> {
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(BadConfiguration(format!("--set {text}: expected KEY=VALUE")).into()),
        };
        self.set.iter().map(pair).collect()
    }
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
    tokio::select! {
        () = gateway.stop() => tracing::info!("stopped"),
        _ = signals.next() => telemetry.say("bezoar: aborted; messages in flight will be delivered again"),
    }
    Ok(())
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
    let (address, store) = (gateway.address(), config.store.path().display());
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
    let queue = config.all_queues().into_iter().next();
    let queue = queue.map_or("default".to_owned(), |queue| queue.as_str().to_owned());
    let segment = queue.replace('/', "%2F");
    telemetry.say(&format!(
        "\nsend a message:\n  curl {authorization} http://{address}/v1/queues/{segment}/messages -H 'Content-Type: application/json' -d '{{\"hello\": 1}}'"
    ));
    if config.routes.is_empty() && config.poison_retries.is_empty() {
        let name = queue.replace('/', "-");
        telemetry.say(
            "\nno routes configured: the gateway delivers nothing. If no other program consumes these queues, add to \
             bezoar.toml and restart:",
        );
        telemetry.say(&format!(
            "  [[route]]\n  name = \"{name}\"\n  from = \"{queue}\"\n  to = \"http://localhost:3000/\""
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

//! `bezoar check`, `bezoar provision` and `bezoar config show | schema`: validate the configuration and the brokers,
//! create what is missing, and show where each value comes from.

use anyhow::{Result, anyhow, bail};
use bezoar::{QueueName, Severity};
use bezoar_gateway::{
    broker_topology::{self, BrokerPlan, PlanForm},
    config::{self, Config},
    endpoint::{ClientOptions, EndpointClient},
    store,
};
use futures_util::{StreamExt as _, stream};

use crate::{output, up::Configuration};

/// How many endpoints are connected to at once.
const CONCURRENCY: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    configuration: Configuration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProvisionArguments {
    /// Only this queue, such as hospital/blood
    #[arg(value_name = "TRANSPORT/QUEUE")]
    queue: Option<QueueName>,
    /// Print what to create instead of creating it: commands for rabbitmqadmin or az; for RabbitMQ also a definitions file,
    /// or one with policies instead of arguments
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = "commands")]
    print: Option<PrintForm>,
    #[command(flatten)]
    configuration: Configuration,
}

/// The form of a plan.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PrintForm {
    Commands,
    Definitions,
    Policies,
}

impl From<PrintForm> for PlanForm {
    fn from(form: PrintForm) -> Self {
        match form {
            PrintForm::Commands => Self::Commands,
            PrintForm::Definitions => Self::Definitions,
            PrintForm::Policies => Self::Policies,
        }
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every value and where it came from; secrets are masked
    Show {
        #[command(flatten)]
        configuration: Configuration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a JSON schema for editors
    Schema,
}

/// Reads the configuration, opens the store, checks the brokers and connects to every endpoint.
pub(crate) async fn check(arguments: CheckArguments) -> Result<()> {
    let loaded = arguments.configuration.load()?;
    match arguments.configuration.file() {
        Some(file) => output::line(&format!("configuration {}: ok", file.display()))?,
        None => output::line("configuration: defaults, because this folder has no bezoar.toml")?,
    }
    for warning in &loaded.warnings {
        output::line(&format!("warning: {warning}"))?;
    }
    let config = loaded.config;
    let state = store::check(&config).await;
    let state = state.map_err(|error| anyhow!("store {}: {error:#}", config.store))?;
    output::line(&format!("store {}: {state}", config.store))?;
    let network = config.network.rule(&config.server);
    let client = EndpointClient::new(ClientOptions { network, ..ClientOptions::default() });
    let routes = config.routes.iter().map(|it| (format!("route {}", it.name), &it.to, &it.tls));
    let poison = config.poison_retries.iter();
    let poison = poison.map(|it| (format!("poison retry of {}", it.queue), &it.to, &it.tls));
    let reached = routes.chain(poison).map(async |(subject, to, tls)| {
        match client.with_tls(tls.options()).reach(to).await {
            Ok(()) => format!("{subject}: {} is reachable", to.origin()),
            Err(error) => {
                format!("warning: {subject}: {} is not reachable: {error}", to.origin())
            }
        }
    });
    let mut reached = stream::iter(reached).buffered(CONCURRENCY);
    while let Some(line) = reached.next().await {
        output::line(&line)?;
    }
    examine(&config).await
}

/// Prints what is wrong with the brokers and their queues, and the remedies.
async fn examine(config: &Config) -> Result<()> {
    let mut wrong = 0;
    for broker_topology::Checked { subject, outcome } in broker_topology::check(config).await? {
        match outcome {
            Err(why) => {
                wrong += 1;
                output::line(&format!("error: {subject}: check failed: {why}"))?;
            }
            Ok(findings) if findings.is_empty() => output::line(&format!("{subject}: ok"))?,
            Ok(findings) => {
                for bezoar::Finding { severity, problem, remedy, .. } in findings {
                    wrong += usize::from(severity >= Severity::Error);
                    output::line(&format!(
                        "{}: {subject}: {problem}; {remedy}",
                        severity.as_str()
                    ))?;
                }
            }
        }
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("found 1 error, see above"),
        _ => bail!("found {wrong} errors, see above"),
    }
}

/// Creates the missing exchanges, queues and bindings.
pub(crate) async fn provision(arguments: ProvisionArguments) -> Result<()> {
    let config = arguments.configuration.load()?.config;
    if let Some(form) = arguments.print {
        let form = form.into();
        let plans = broker_topology::plan(&config, arguments.queue.as_ref(), form)?;
        return print_plans(form, &plans);
    }
    let queues = broker_topology::provision(&config, arguments.queue.as_ref()).await?;
    if queues.is_empty() {
        output::line(
            "no broker queues are configured; queues of the store are created at startup",
        )?;
    }
    for queue in queues {
        output::line(&format!("queue {queue}: provisioned"))?;
    }
    Ok(())
}

/// Prints plans. A definitions file is for one broker.
fn print_plans(form: PlanForm, plans: &[BrokerPlan]) -> Result<()> {
    if plans.len() > 1 && !matches!(form, PlanForm::Commands) {
        bail!("a definitions file is for one broker, and several are configured; name a queue");
    }
    let mut text = String::new();
    for BrokerPlan { broker, text: plan } in plans {
        if form == PlanForm::Commands {
            text += &format!("# {broker}\n");
        }
        text += plan;
    }
    output::print(&text).map(drop)
}

pub(crate) fn config(command: ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Show { configuration, json } => {
            let loaded = configuration.load()?;
            if json {
                output::line(&serde_json::to_string_pretty(&config::show(&loaded))?)?;
            } else {
                output::print(&config::show_text(&loaded))?;
            }
        }
        ConfigCommand::Schema => output::line(&serde_json::to_string_pretty(&config::schema())?)?,
    }
    Ok(())
}

//! `bezoar check` and `bezoar config show | schema`: is the configuration right, and where does each value come from.

use anyhow::Result;
use bezoar_gateway::{
    config,
    endpoint::{Client, ClientOptions},
};

use crate::up::{BadConfiguration, Configuration};

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    configuration: Configuration,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every value and where it came from; secrets are masked
    Show {
        #[command(flatten)]
        configuration: Configuration,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// A JSON schema for editors
    Schema,
}

/// Reads the configuration, opens the store and looks whether endpoints can be reached.
pub(crate) async fn check(arguments: CheckArguments) -> Result<()> {
    let loaded = arguments.configuration.load()?;
    for warning in &loaded.warnings {
        println!("warning: {warning}");
    }
    let config = loaded.config;
    let path = config.store.path().to_owned();
    if path.exists() {
        let url = format!("sqlite:{}", path.display());
        bezoar::connect(&url).await.map_err(|error| {
            BadConfiguration(format!("store {}: {error}: {}", path.display(), source(&error)))
        })?;
        println!("store {}: ok", path.display());
    } else {
        println!("store {}: will be made at the first start", path.display());
    }
    let network = config.network.rule(&config.server);
    let client = Client::new(ClientOptions { network, ..ClientOptions::default() });
    for route in &config.routes {
        match client.reach(&route.to).await {
            Ok(()) => println!("route {}: {} can be reached", route.name, route.to.origin()),
            Err(trouble) => println!(
                "warning: route {}: {} cannot be reached: {trouble}",
                route.name,
                route.to.origin()
            ),
        }
    }
    Ok(())
}

fn source(error: &bezoar::TransportError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn config(command: ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Show { configuration, json } => {
            let loaded = configuration.load()?;
            if json {
                println!("{}", serde_json::to_string_pretty(&config::show(&loaded))?);
            } else {
                print!("{}", config::show_text(&loaded));
            }
        }
        ConfigCommand::Schema => println!("{}", serde_json::to_string_pretty(&config::schema())?),
    }
    Ok(())
}

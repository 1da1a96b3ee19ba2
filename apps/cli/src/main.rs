//! The program `bezoar`.

mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The antidote to poison messages.
#[derive(Debug, Parser)]
#[command(
    name = "bezoar",
    version,
    after_help = "Exit codes: 0 ok, 1 failed, 2 wrong usage, 78 bad configuration."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch retries, poison messages, an outage and a replay on the embedded queue
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bezoar: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
    }
}

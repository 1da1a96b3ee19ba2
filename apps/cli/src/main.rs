//! The program `bezoar`.

mod check;
mod demo;
mod up;

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
    /// Run the gateway: with no file on an embedded store in ./bezoar-data
    Up(up::Arguments),
    /// Look whether configuration, store and endpoints are right
    Check(check::CheckArguments),
    /// Look at the configuration
    #[command(subcommand)]
    Config(check::ConfigCommand),
}

/// The configuration cannot be used, as of sysexits(3).
const BAD_CONFIGURATION: u8 = 78;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bezoar: {error:#}");
            let bad_configuration = error.is::<up::BadConfiguration>();
            if bad_configuration { ExitCode::from(BAD_CONFIGURATION) } else { ExitCode::FAILURE }
        }
    }
}

#[tokio::main]
async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Up(arguments) => up::run(arguments).await,
        Command::Check(arguments) => check::check(arguments).await,
        Command::Config(command) => check::config(command),
    }
}

//! The program `bezoar`.

mod audit;
mod bench;
mod check;
mod client;
mod dead;
mod demo;
mod duration;
mod health;
mod humanize;
mod local_endpoint;
mod manual;
mod notify;
mod output;
mod private_file;
mod prompt;
mod queue_status;
mod queues;
mod reason;
mod route;
mod send;
mod shell;
mod table;
mod temporary_gateway;
mod top;
mod up;
mod whoami;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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
    #[command(flatten)]
    connection: client::Connection,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a gateway deal with retries, poison messages, an outage and a replay, and try it by hand
    Demo(demo::Arguments),
    /// Run the gateway: with no file on an embedded store in ./bezoar-data
    Up(up::Arguments),
    /// Look whether configuration, store, brokers and endpoints are right
    Check(check::CheckArguments),
    /// Make what the queues of brokers need and lack: exchanges, queues, bindings
    Provision(check::ProvisionArguments),
    /// Look at the configuration
    #[command(subcommand)]
    Config(check::ConfigCommand),
    /// Send a message, or every line of a file as one
    Send(send::Arguments),
    /// How many messages are where, how old, and what the routes do
    Queues(queues::Arguments),
    /// The queues, live
    Top(top::Arguments),
    /// Messages that were set aside, and what is done about them
    Dead(dead::Arguments),
    /// Who did what, and whether the log of it is as it was written
    Audit(audit::Arguments),
    /// Let a route take no more messages; they wait
    Pause(route::Arguments),
    /// Let a route take messages again
    Resume(route::Arguments),
    /// What the token in use may do
    Whoami(whoami::Arguments),
    /// Whether the gateway can take messages: for health checks, without a token
    Health(health::Arguments),
    /// Load a gateway end to end, and report throughput and latency
    Bench(bench::Arguments),
    /// Print the script by which a shell completes commands
    Completions(manual::CompletionsArguments),
    /// Write manual pages
    #[command(hide = true)]
    Man(manual::ManArguments),
}

/// The configuration cannot be used, as of sysexits(3).
const BAD_CONFIGURATION: u8 = 78;

fn main() -> ExitCode {
    let Arguments { command, connection } = Arguments::parse();
    match run(command, &connection) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bezoar: {error:#}");
            let bad_configuration = error.is::<up::BadConfiguration>();
            if bad_configuration { ExitCode::from(BAD_CONFIGURATION) } else { ExitCode::FAILURE }
        }
    }
}

#[tokio::main]
async fn run(command: Command, connection: &client::Connection) -> anyhow::Result<()> {
    let client = || connection.client();
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Up(arguments) => up::run(arguments).await,
        Command::Check(arguments) => check::check(arguments).await,
        Command::Provision(arguments) => check::provision(arguments).await,
        Command::Config(command) => check::config(command),
        Command::Send(arguments) => send::run(arguments, &client()?).await,
        Command::Queues(arguments) => queues::run(arguments, &client()?).await,
        Command::Top(arguments) => top::run(arguments, &client()?).await,
        Command::Dead(arguments) => dead::run(arguments, &client()?).await,
        Command::Audit(arguments) => audit::run(arguments, &client()?).await,
        Command::Pause(arguments) => {
            route::run(route::RouteCommand::Pause, arguments, &client()?).await
        }
        Command::Resume(arguments) => {
            route::run(route::RouteCommand::Resume, arguments, &client()?).await
        }
        Command::Whoami(arguments) => whoami::run(arguments, &client()?).await,
        Command::Health(arguments) => health::run(arguments, &client()?).await,
        Command::Bench(arguments) => bench::run(arguments, connection).await,
        Command::Completions(arguments) => manual::completions(Arguments::command(), arguments),
        Command::Man(arguments) => manual::man(Arguments::command(), arguments),
    }
}

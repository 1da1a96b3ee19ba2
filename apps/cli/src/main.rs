//! The program `bezoar`.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic if nobody reads them or the disk is full; use the module `output`"
)]

mod audit;
mod bench;
mod check;
mod client;
mod complete;
mod dead;
mod demo;
mod duration;
mod health;
mod help;
mod humanize;
mod listing;
mod local_endpoint;
mod manual;
mod message;
mod notify;
mod output;
mod poison_retry;
mod private_file;
mod prompt;
mod queue_status;
mod queue_table;
mod queues;
mod reason;
mod route;
mod schema;
mod send;
mod shell;
mod status;
mod table;
mod temporary_gateway;
mod top;
mod up;
mod whoami;

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;

/// The antidote to poison messages.
#[derive(Debug, Parser)]
#[command(
    name = "bezoar",
    version,
    after_help = "Exit codes: 0 success, 1 failure, 2 usage error, 78 invalid configuration."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    connection: client::Connection,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a gateway handle retries, poison messages, an outage and a replay
    Demo(demo::Arguments),
    /// Run the gateway; without a configuration file it uses an embedded store in ./bezoar-data
    Up(up::Arguments),
    /// Validate the configuration and test the store, every broker and every endpoint
    Check(check::CheckArguments),
    /// Create missing exchanges, queues and bindings on the brokers
    Provision(check::ProvisionArguments),
    /// Show the effective configuration, or its JSON schema
    #[command(subcommand)]
    Config(check::ConfigCommand),
    /// Print the SQL that creates the tables of a store
    #[command(subcommand)]
    Schema(schema::Command),
    /// Send a message, or every line of a file as a message
    Send(send::Arguments),
    /// Show where a message is
    Message(message::Arguments),
    /// Show one verdict on the gateway with its reasons; the exit code is the verdict
    Status(status::Arguments),
    /// Show message counts, ages and route states for every queue
    Queues(queues::Arguments),
    /// Show a live view of the queues
    Top(top::Arguments),
    /// List, inspect, replay, edit or discard dead letters
    Dead(dead::Arguments),
    /// List the audit log, or verify that it was not tampered with
    Audit(audit::Arguments),
    /// Pause a route; its messages wait in the queue
    Pause(route::Arguments),
    /// Resume a paused route
    Resume(route::Arguments),
    /// Work on poison queues now, instead of waiting for their schedule
    #[command(subcommand)]
    PoisonRetry(poison_retry::Command),
    /// Show what your token may do
    Whoami(whoami::Arguments),
    /// Check that the gateway accepts messages; needs no token
    Health(health::Arguments),
    /// Load-test a gateway end to end and report throughput and latency
    Bench(bench::Arguments),
    /// Print a shell completion script
    Completions(manual::CompletionsArguments),
    /// Write man pages
    #[command(hide = true)]
    Man(manual::ManArguments),
}

/// The configuration is invalid: `EX_CONFIG` of sysexits(3).
const BAD_CONFIGURATION: u8 = 78;

fn main() -> ExitCode {
    bezoar::quiet_panics();
    CompleteEnv::with_factory(program).var(manual::COMPLETE).complete();
    let arguments = Arguments::from_arg_matches(&program().get_matches());
    let Arguments { command, connection } = arguments.unwrap_or_else(|error| error.exit());
    match run(command, &connection) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_code(&error),
    }
}

/// Prints an error, unless the command has printed what is wrong, and returns the exit code.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    if let Some(verdict) = error.downcast_ref::<status::NotOk>() {
        return ExitCode::from(verdict.0);
    }
    output::say_lines(&format!("bezoar: {error:#}"));
    let bad_configuration = error.is::<up::BadConfiguration>();
    if bad_configuration { ExitCode::from(BAD_CONFIGURATION) } else { ExitCode::FAILURE }
}

/// Commands that run without talking to a running gateway.
const LOCAL: [&str; 8] =
    ["demo", "up", "check", "provision", "config", "schema", "completions", "man"];

/// The program's arguments. Local commands accept the flags of a connection, which are global, but do not show them.
fn program() -> clap::Command {
    let program = help::improve(Arguments::command());
    let global = program.get_arguments().filter(|argument| argument.is_global_set());
    let hidden: Vec<_> = global.map(|argument| argument.clone().hide(true)).collect();
    let program = LOCAL.into_iter().fold(program, |program, name| {
        program.mut_subcommand(name, |command| command.args(&hidden))
    });
    let token = hidden.into_iter().filter(|argument| argument.get_id() == "token");
    program.mut_subcommand("health", |command| command.args(token)) // it needs none
}

/// How long the end waits for calls that cannot be cancelled, such as looking up a name that nobody answers for.
const LAST_CALLS: Duration = Duration::from_secs(1);

fn run(command: Command, connection: &client::Connection) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let outcome = runtime.block_on(execute(command, connection));
    runtime.shutdown_timeout(LAST_CALLS);
    outcome
}

async fn execute(command: Command, connection: &client::Connection) -> anyhow::Result<()> {
    let client = || connection.client();
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Up(arguments) => up::run(arguments).await,
        Command::Check(arguments) => check::check(arguments).await,
        Command::Provision(arguments) => check::provision(arguments).await,
        Command::Config(command) => check::config(command),
        Command::Schema(command) => schema::run(command),
        Command::Send(arguments) => send::run(arguments, &client()?).await,
        Command::Message(arguments) => message::run(arguments, &client()?).await,
        Command::Status(arguments) => status::run(arguments, connection).await,
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
        Command::PoisonRetry(command) => poison_retry::run(command, &client()?).await,
        Command::Whoami(arguments) => whoami::run(arguments, &client()?).await,
        Command::Health(arguments) => health::run(arguments, &client()?).await,
        Command::Bench(arguments) => bench::run(arguments, connection).await,
        Command::Completions(arguments) => manual::completions(&program(), arguments),
        Command::Man(arguments) => manual::man(program(), arguments),
    }
}

//! `bezoar schema print`: the SQL that creates a store's tables, for people who run migrations themselves.

use anyhow::Result;

use crate::output;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the SQL that creates the tables, and the grants for a user who only works with them
    Print {
        /// The kind of database
        database: Database,
        /// Schema that the tables are in
        #[arg(long, default_value = "bezoar")]
        schema: String,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Database {
    /// PostgreSQL
    Postgres,
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Print { database: Database::Postgres, schema } => {
            output::print(&bezoar::postgres::schema_script(&schema)).map(drop)
        }
    }
}

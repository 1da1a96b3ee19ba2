//! A PostgreSQL server that many tests share, and a PgBouncer in front of it.

use std::path::Path;

use anyhow::Result;
use test_support::postgres::{PgBouncer, Postgres};

use crate::install;

/// Installs both, unless they are there. Their own services are not used: Debian may start them, on their usual ports.
pub(crate) fn install() -> Result<()> {
    if Path::new("/usr/lib/postgresql").is_dir() && Path::new("/usr/sbin/pgbouncer").is_file() {
        return Ok(());
    }
    install::packages(&["postgresql", "pgbouncer"])
}

/// A server that lives as long as this value.
pub(crate) struct PostgresServer {
    /// Dropped first: it leads to the server.
    bouncer: PgBouncer,
    server: Postgres,
}

impl PostgresServer {
    /// Starts an empty server, and waits until it answers.
    pub(crate) fn start(root: &Path) -> Result<Self> {
        let name = format!("postgres-{}", std::process::id());
        let server = Postgres::start_in(&root.join("target/servers").join(name))?;
        Ok(Self { bouncer: PgBouncer::start(&server)?, server })
    }

    /// The environment variables by which tests find the server.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("BEZOAR_TEST_POSTGRES", self.server.url()),
            ("BEZOAR_TEST_PGBOUNCER", self.bouncer.url()),
        ]
    }
}

//! A transaction of the catalogue: its time, and what it collects to write or to do at its end.

use std::collections::BTreeSet;

use bezoar_core::{catalogue::StoreKey, millis};
use jiff::Timestamp;
use sqlx::{
    PgConnection, Postgres, Row,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use super::causes::cause_changes::CauseChanges;
use crate::database::Database;

/// A statement with its parameters.
pub(crate) type Statement = Query<'static, Postgres, PgArguments>;

pub(crate) struct Session<'c> {
    pub(crate) database: &'c Database,
    connection: &'c mut PgConnection,
    pub(crate) key: StoreKey,
    now: i64,
    /// What this transaction adds to causes.
    pub(crate) causes: CauseChanges,
    /// Queues in which this transaction made messages ready.
    woken: BTreeSet<i32>,
}

impl<'c> Session<'c> {
    /// Begins by reading the time of the server.
    pub(crate) async fn begin(
        database: &'c Database,
        connection: &'c mut PgConnection,
        key: StoreKey,
    ) -> sqlx::Result<Self> {
        let now = database.statement("SELECT {schema}.now_ms()");
        let now = now.fetch_one(&mut *connection).await?.try_get(0)?;
        let (causes, woken) = (CauseChanges::default(), BTreeSet::new());
        Ok(Self { database, connection, key, now, causes, woken })
    }

    /// The time at which the transaction began, in milliseconds.
    pub(crate) fn now_millis(&self) -> i64 {
        self.now
    }

    pub(crate) fn now(&self) -> Timestamp {
        millis(self.now)
    }

    /// A statement, in which `{schema}` becomes the name of the schema.
    pub(crate) fn query(&self, sql: &str) -> Statement {
        self.database.statement(sql)
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.connection
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(&mut self, statement: Statement) -> sqlx::Result<u64> {
        Ok(statement.execute(&mut *self.connection).await?.rows_affected())
    }

    pub(crate) async fn all(&mut self, statement: Statement) -> sqlx::Result<Vec<PgRow>> {
        statement.fetch_all(&mut *self.connection).await
    }

    pub(crate) async fn one(&mut self, statement: Statement) -> sqlx::Result<PgRow> {
        statement.fetch_one(&mut *self.connection).await
    }

    pub(crate) async fn optional(&mut self, statement: Statement) -> sqlx::Result<Option<PgRow>> {
        statement.fetch_optional(&mut *self.connection).await
    }

    /// Waits for a lock that others take under the same name, and holds it until the transaction ends.
    pub(crate) async fn lock(&mut self, name: String) -> sqlx::Result<()> {
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
        let name = format!("bezoar {name} {}", self.database.schema.as_str());
        let lock = self.query(lock).bind(name);
        self.execute(lock).await.map(drop)
    }

    pub(crate) fn wake(&mut self, queue: i32) {
        self.woken.insert(queue);
    }

    /// Writes what was collected, and returns the queues whose receivers are to be woken after the commit.
    pub(crate) async fn end(mut self) -> sqlx::Result<BTreeSet<i32>> {
        let changes = std::mem::take(&mut self.causes);
        changes.append(&mut self).await?;
        Ok(self.woken)
    }
}

/// A count as the tables have it. A wrong one, changed by hand, is 0 at least.
pub(crate) fn number(row: &PgRow, column: usize) -> sqlx::Result<u64> {
    Ok(row.try_get::<i64, _>(column)?.max(0).unsigned_abs())
}

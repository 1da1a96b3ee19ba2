//! Connections, and how work is run on them.
//!
//! Work runs in a task of its own. So if the caller's future is dropped, the work still ends as it would have, and its
//! connection is never left in the middle of an answer.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar_core::{ErrorKind, TransportError, catalogue::StoreKey};
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, Postgres, Row,
    pool::PoolConnection,
    postgres::{PgArguments, PgPool, PgPoolOptions},
    query::Query,
};
use tokio::{
    sync::OnceCell,
    time::{error::Elapsed, timeout},
};

use crate::{
    Options,
    catalogue::{causes::cause_changes::add_up_if_free, session::Session},
    error::{error, from_sqlx, invalid, is_lost, is_rolled_back_for_others},
    schema::{self, SchemaState},
    schema_name::SchemaName,
    statements::Statements,
};

/// How often work is run that other transactions got in the way of.
const MAX_TRIES: u32 = 5;
/// A connection that was idle for longer is tried before it is used: the server may have closed it.
const MAX_UNTRIED_IDLE: Duration = Duration::from_secs(1);

/// How long such a connection may take to answer.
const PING_DEADLINE: Duration = Duration::from_secs(2);
/// How much longer than the server gives a statement this process waits for the answer. Who still has none is cut off:
/// a connection may die without a word.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);
/// How many statements of the longest duration a transaction may have.
const LONG_STATEMENTS: u32 = 3;

/// After how many transactions with dead letters a process adds up what all have appended.
const ADD_UP_EVERY: u32 = 64;

/// Settings of every session. All statements look rows up by index, however large a table has become since its
/// statistics were made, and so are planned only once. Just-in-time compilation would take longer than they do.
const SETTINGS: [(&str, &str); 6] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// What is done on a connection.
pub(crate) type Step<'c, T> = Pin<Box<dyn Future<Output = sqlx::Result<T>> + Send + 'c>>;

/// How work is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One statement whose effect, if any, nobody has to know when the connection is lost.
    Read,
    /// One statement.
    Write,
    /// Several statements that take effect together.
    Transaction,
    /// Several statements that only read, and all see the same data.
    Snapshot,
}

impl Scope {
    /// Whether nothing is changed that somebody would have to know about if the connection is lost.
    const fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::Snapshot)
    }

    pub(crate) const fn writes(self) -> bool {
        !self.only_reads()
    }
}

/// A pool of connections to one database.
#[derive(Debug)]
pub(crate) struct Database {
    pool: PgPool,
    pub(crate) options: Options,
    pub(crate) sql: Statements,
    pub(crate) schema: SchemaName,
    begin: Arc<str>,
    begin_snapshot: Arc<str>,
    prepared: OnceCell<()>,
    store_key: OnceCell<StoreKey>,
    /// How often this process has appended to `cause_changes` since it last added them up.
    unadded: AtomicU32,
}

impl Database {
    /// Connects on first use. Needs a Tokio runtime.
    pub(crate) fn open(options: Options) -> Result<Arc<Self>, TransportError> {
        options.check().map_err(invalid)?;
        let settings = settings(&options);
        let mut server = options.server.0.clone();
        if options.transaction_pooling {
            server = server.statement_cache_capacity(0).extra_float_digits(None);
        } else {
            server = server.options(settings.iter().map(|(name, value)| (*name, value.as_str())));
        }
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.connect_timeout)
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    if about.idle_for > MAX_UNTRIED_IDLE {
                        timeout(PING_DEADLINE, connection.ping()).await.map_err(silent)??;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(server);
        let schema = SchemaName::new(&options.schema);
        let settings = if options.transaction_pooling { settings } else { Vec::new() };
        Ok(Arc::new(Self {
            pool,
            sql: Statements::of(&schema),
            schema,
            begin: begin_with("BEGIN", &settings).into(),
            begin_snapshot: begin_with(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                &settings,
            )
            .into(),
            prepared: OnceCell::new(),
            store_key: OnceCell::new(),
            unadded: AtomicU32::new(0),
            options,
        }))
    }

    /// A statement that is written where it is used. `{schema}` in it becomes the name of the schema.
    pub(crate) fn statement<'q>(&self, sql: &str) -> Query<'q, Postgres, PgArguments> {
        self.query(&self.schema.fill(sql).into())
    }

    /// The secret key of the fingerprints of causes, which never changes.
    pub(crate) async fn store_key(&self) -> Result<&StoreKey, TransportError> {
        let read = || async {
            self.run_here("store_key", Scope::Read, &|database, connection| {
                let query = database.statement("SELECT key FROM {schema}.store_key");
                Box::pin(async move {
                    let key: Vec<u8> = query.fetch_one(connection).await?.try_get(0)?;
                    let key = key.try_into().map_err(|_| sqlx::Error::RowNotFound)?;
                    Ok(StoreKey::new(key))
                })
            })
            .await
        };
        self.store_key.get_or_try_init(read).await
    }

    /// A statement. Prepared once per connection, unless a pooler is in between.
    pub(crate) fn query<'q>(&self, sql: &Arc<str>) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(AssertSqlSafe(sql.clone())).persistent(!self.options.transaction_pooling)
    }

    /// A connection apart from the pool.
    pub(crate) async fn connect(&self) -> sqlx::Result<PgConnection> {
        PgConnection::connect_with(&self.pool.connect_options()).await
    }

    /// Looks whether the database can be used, and changes nothing.
    pub(crate) async fn examine(&self) -> Result<SchemaState, TransportError> {
        let mut connection =
            self.pool.acquire().await.map_err(|source| from_sqlx(&source, "open"))?;
        schema::examine(&mut connection, &self.options).await
    }

    /// A connection for the listener, which keeps it.
    pub(crate) fn listener_pool(&self) -> PgPool {
        let one =
            PgPoolOptions::new().max_connections(1).acquire_timeout(self.options.connect_timeout);
        one.connect_lazy_with((*self.pool.connect_options()).clone())
    }

    /// Closes all connections, after the work that is under way.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Adds up what is appended to `cause_changes` from time to time. If it fails, the next one has more to add up.
    pub(crate) async fn add_up_changes(&self) {
        if self.unadded.fetch_add(1, Ordering::Relaxed) < ADD_UP_EVERY {
            return;
        }
        self.unadded.store(0, Ordering::Relaxed);
        let Ok(key) = self.store_key().await else { return };
        let _ = self
            .run_here("add up", Scope::Transaction, &|database, connection| {
                let key = key.clone();
                Box::pin(async move {
                    let mut session = Session::begin(database, connection, key).await?;
                    add_up_if_free(&mut session).await
                })
            })
            .await;
    }

    /// Runs work to its end, also if the returned future is dropped.
    ///
    /// # Errors
    ///
    /// `OutcomeUnknown` if the connection was lost while the server worked, except for [`Scope::Read`].
    pub(crate) async fn run<T, W>(
        self: &Arc<Self>,
        operation: &'static str,
        scope: Scope,
        work: W,
    ) -> Result<T, TransportError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c Self, &'c mut PgConnection) -> Step<'c, T> + Send + Sync + 'static,
    {
        let database = self.clone();
        let task = tokio::spawn(async move { database.run_here(operation, scope, &work).await });
        let ended = |_| error(ErrorKind::OutcomeUnknown, operation).with_source("the task ended");
        task.await.map_err(ended)?
    }

    /// As [`run`](Self::run), in this task.
    pub(crate) async fn run_here<T, W>(
        &self,
        operation: &'static str,
        scope: Scope,
        work: &W,
    ) -> Result<T, TransportError>
    where
        W: for<'c> Fn(&'c Self, &'c mut PgConnection) -> Step<'c, T> + Sync,
    {
        self.run_keeping(operation, scope, |_| true, work).await
    }

    /// As [`run_here`](Self::run_here); a transaction whose result `keeps` rejects is undone.
    pub(crate) async fn run_keeping<T, W>(
        &self,
        operation: &'static str,
        scope: Scope,
        keeps: fn(&T) -> bool,
        work: &W,
    ) -> Result<T, TransportError>
    where
        W: for<'c> Fn(&'c Self, &'c mut PgConnection) -> Step<'c, T> + Sync,
    {
        let mut tries = 0;
        loop {
            let mut connection = self.connection(operation).await?;
            tries += 1;
            let attempt = self.attempt(&mut connection, scope, keeps, work);
            let attempt = timeout(self.longest(scope), attempt).await;
            match attempt.unwrap_or_else(|late| Err(silent(late))) {
                Ok(done) => return Ok(done),
                Err(source) if is_rolled_back_for_others(&source) && tries < MAX_TRIES => (),
                Err(source) if is_lost(&source) => {
                    // Not returned to the pool, which would try it first.
                    connection.detach();
                    let mut failed = from_sqlx(&source, operation);
                    if !scope.only_reads() {
                        failed.kind = ErrorKind::OutcomeUnknown;
                    }
                    return Err(failed);
                }
                Err(source) => return Err(from_sqlx(&source, operation)),
            }
        }
    }

    /// How long work may take before its connection counts as lost.
    fn longest(&self, scope: Scope) -> Duration {
        let statements = match scope {
            Scope::Read | Scope::Write => 1,
            Scope::Transaction | Scope::Snapshot => LONG_STATEMENTS,
        };
        self.options.statement_timeout.saturating_mul(statements).saturating_add(ANSWER_MARGIN)
    }

    async fn attempt<T, W>(
        &self,
        connection: &mut PgConnection,
        scope: Scope,
        keeps: fn(&T) -> bool,
        work: &W,
    ) -> sqlx::Result<T>
    where
        W: for<'c> Fn(&'c Self, &'c mut PgConnection) -> Step<'c, T> + Sync,
    {
        let begin = match scope {
            Scope::Snapshot => &self.begin_snapshot,
            Scope::Read | Scope::Write if !self.options.transaction_pooling => {
                return work(self, connection).await;
            }
            Scope::Read | Scope::Write | Scope::Transaction => &self.begin,
        };
        let mut transaction = connection.begin_with(AssertSqlSafe(begin.clone())).await?;
        let done = work(self, &mut transaction).await?;
        match keeps(&done) {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        Ok(done)
    }

    /// A connection to a database whose schema was checked.
    async fn connection(
        &self,
        operation: &'static str,
    ) -> Result<PoolConnection<Postgres>, TransportError> {
        let failed = |source: sqlx::Error| from_sqlx(&source, operation);
        let mut connection = self.pool.acquire().await.map_err(failed)?;
        self.prepared.get_or_try_init(|| schema::prepare(&mut connection, &self.options)).await?;
        Ok(connection)
    }
}

/// No answer in time counts as a lost connection.
fn silent(_: Elapsed) -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())
}

fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let timeout = options.statement_timeout.as_millis().min(i32::MAX as u128).to_string();
    let timeouts = ["statement_timeout", "idle_in_transaction_session_timeout"];
    let timeouts = timeouts.map(|name| (name, timeout.clone()));
    let settings = SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned()));
    settings.chain(timeouts).collect()
}

/// Through a pooler, settings hold for a transaction.
fn begin_with(begin: &str, settings: &[(&'static str, String)]) -> String {
    let set = settings.iter().map(|(name, value)| format!("; SET LOCAL {name} = '{value}'"));
    format!("{begin}{}", set.collect::<String>())
}

//! One leader among the processes that share a database, for what only one may do.
//!
//! A row says who leads, until when by the clock of the server, and under which number. The leader renews it every
//! second; others take it once it has expired, and raise the number. A lease alone would not keep a leader that was
//! paused or cut off from acting when it comes back. So every transaction of a leader first renews the row under its own
//! number, which fails if the number has risen, and holds the row's lock until it ends: nobody takes over in the middle
//! of an act. If the leader is cut off then, the server ends its transaction after [`STALLED`].

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar_core::{catalogue::CatalogueError, to_millis};
use rand::RngExt;
use sqlx::{PgConnection, Row};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    PostgresTransport,
    catalogue::session::{Session, Statement},
    database::Database,
};

/// How long a leader leads without renewing. It is replaced within 5 s of its end.
const LEASE: Duration = Duration::from_millis(2_500);
/// How often it renews, and how long it waits for an answer.
const RENEW_EVERY: Duration = Duration::from_millis(700);
/// How often others look whether they can lead.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// After how long without a statement, or behind a lock, the server gives up on a transaction of the leader.
const STALLED: Duration = Duration::from_secs(2);
/// How long a statement of the leader may take.
const LONGEST_STATEMENT: Duration = Duration::from_secs(4);

/// A candidate for a role that one of several processes has. Dropping it makes room for others at once.
#[derive(Debug)]
pub struct Leader {
    fence: Fence,
    transport: PostgresTransport,
    /// Told or dropped, it ends the candidacy.
    resign: watch::Sender<()>,
}

impl PostgresTransport {
    /// Takes part in the election of a leader. There is at most one for each role and schema.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn elect(&self, role: &str) -> Leader {
        let (leading, term) = watch::channel(None);
        let (resign, resigned) = watch::channel(());
        let renewed = Arc::new(Mutex::new(Instant::now()));
        let fence = Fence { role: role.into(), term, fixed: None, renewed: renewed.clone() };
        let holder = format!("{:016x}", rand::rng().random::<u64>());
        let candidate = Candidate {
            connection: Mutex::default(),
            database: self.database.clone(),
            role: role.into(),
            holder,
            leading,
            renewed,
        };
        tokio::spawn(candidate.run(resigned));
        let transport = self.fenced_by(fence.clone());
        Leader { fence, transport, resign }
    }
}

impl Leader {
    /// The same store. What it changes through this handle it changes only while this process leads; otherwise it
    /// answers [`CatalogueError::NotLeading`]. Reading is not restricted, and neither are queues.
    pub fn store(&self) -> PostgresTransport {
        self.transport.clone()
    }

    /// As [`store`](Self::store), for the current term only: it changes nothing after another process has led, even if
    /// this one leads again. `None` if this process does not lead.
    pub fn store_of_term(&self) -> Option<PostgresTransport> {
        let number = *self.fence.term.borrow();
        let fence = Fence { fixed: Some(number?), ..self.fence.clone() };
        Some(self.transport.fenced_by(fence))
    }

    /// Whether this process leads, as far as it knows.
    pub fn leads(&self) -> bool {
        self.fence.term.borrow().is_some()
    }

    /// Waits until this process leads.
    pub async fn elected(&self) {
        let mut term = self.fence.term.clone();
        if term.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this process does not lead.
    pub async fn lost(&self) {
        let mut term = self.fence.term.clone();
        let _ = term.wait_for(Option::is_none).await; // an error means that the candidate has ended
    }

    /// Ends the candidacy, and lets another process lead at once.
    pub async fn resign(&self) {
        let _ = self.resign.send(());
        let mut term = self.fence.term.clone();
        while term.changed().await.is_ok() {} // it is closed when the candidate has ended
    }
}

/// What a handle needs to prove that its process leads.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    role: Arc<str>,
    term: watch::Receiver<Option<i64>>,
    /// The only number with which the handle may act, if it is for one term.
    fixed: Option<i64>,
    renewed: Arc<Mutex<Instant>>,
}

impl Fence {
    /// The term in which an act begins.
    pub(crate) fn term(&self) -> Result<Term, CatalogueError> {
        let number = self.fixed.or(*self.term.borrow()).ok_or(CatalogueError::NotLeading)?;
        Ok(Term { role: self.role.clone(), number })
    }

    /// An act of this process has renewed the lease.
    pub(crate) fn held(&self) {
        note(&self.renewed, Instant::now());
    }
}

/// The time in which a process leads without interruption.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    role: Arc<str>,
    number: i64,
}

impl Term {
    /// Renews the lease, and keeps others from leading until the transaction ends; `false` if another one leads.
    pub(crate) async fn hold(&self, session: &mut Session<'_>) -> sqlx::Result<bool> {
        // Whatever the server waits for, it notices in time that nobody waits for it.
        let timeouts = session.query(
            "SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('lock_timeout', $1, true),
                    set_config('statement_timeout', $2, true)",
        );
        let timeouts = timeouts
            .bind(STALLED.as_millis().to_string())
            .bind(LONGEST_STATEMENT.as_millis().to_string());
        session.one(timeouts).await?;
        let renew = session
            .query(RENEW)
            .bind(self.role.to_string())
            .bind(self.number)
            .bind(to_millis(LEASE));
        Ok(session.optional(renew).await?.is_some())
    }
}

const RENEW: &str = "UPDATE {schema}.leaders SET until = {schema}.now_ms() + $3
    WHERE role = $1 AND number = $2 AND until > {schema}.now_ms() RETURNING number";

/// Takes an expired lease. One that somebody has locked is being used.
const TAKE: &str =
    "UPDATE {schema}.leaders SET number = number + 1, holder = $2, until = {schema}.now_ms() + $3
    WHERE role = (SELECT role FROM {schema}.leaders WHERE role = $1 AND until <= {schema}.now_ms()
                  FOR UPDATE SKIP LOCKED)
    RETURNING number";

const FIRST: &str = "INSERT INTO {schema}.leaders (role, number, holder, until)
    VALUES ($1, 1, $2, {schema}.now_ms() + $3) ON CONFLICT (role) DO NOTHING RETURNING number";

const RESIGN: &str =
    "UPDATE {schema}.leaders SET until = 0 WHERE role = $1 AND number = $2 RETURNING number";

fn note(renewed: &Mutex<Instant>, at: Instant) {
    let mut renewed = lock(renewed);
    *renewed = at.max(*renewed);
}

/// The task that takes part in the election, on a connection of its own.
struct Candidate {
    /// Not in the pool, whose connections may all be in use. Gone while it is used.
    connection: Mutex<Option<PgConnection>>,
    database: Arc<Database>,
    role: Arc<str>,
    holder: String,
    leading: watch::Sender<Option<i64>>,
    /// When the last renewal began that succeeded.
    renewed: Arc<Mutex<Instant>>,
}

impl Candidate {
    async fn run(self, mut resigned: watch::Receiver<()>) {
        tokio::select! {
            biased;
            _ = resigned.changed() => (),
            () = self.take_part() => (),
        }
        if let Some(number) = self.leading.send_replace(None) {
            let _ = timeout(RENEW_EVERY, self.ask(RESIGN, number)).await; // otherwise the lease ends by itself
        }
    }

    async fn take_part(&self) {
        // Creates the schema.
        while self.database.store_key().await.is_err() {
            sleep(LOOK_EVERY).await;
        }
        loop {
            let pause = match *self.leading.borrow() {
                Some(_) => RENEW_EVERY,
                None => LOOK_EVERY,
            };
            self.look().await;
            sleep(pause).await;
        }
    }

    /// Renews the lease, or tries to take it.
    async fn look(&self) {
        let (number, began) = (*self.leading.borrow(), Instant::now());
        let answer = timeout(RENEW_EVERY, async {
            match number {
                Some(number) => self.ask(RENEW, number).await,
                None => self.take().await,
            }
        });
        match answer.await {
            Ok(Ok(Some(number))) => {
                note(&self.renewed, began);
                self.lead(Some(number));
            }
            Ok(Ok(None)) => self.lead(None),
            // Nobody knows; it leads until its lease has ended for sure.
            Ok(Err(_)) | Err(_) => {
                let renewed = *lock(&self.renewed);
                if renewed.elapsed() >= LEASE {
                    self.lead(None);
                }
            }
        }
    }

    fn lead(&self, number: Option<i64>) {
        let changes = |before: &mut Option<i64>| std::mem::replace(before, number) != number;
        if self.leading.send_if_modified(changes) {
            let (role, leads) = (&*self.role, number.is_some());
            tracing::info!(role, leads, "the leader of this database has changed");
        }
    }

    async fn take(&self) -> sqlx::Result<Option<i64>> {
        match self.claim(TAKE).await? {
            None => self.claim(FIRST).await,
            number => Ok(number),
        }
    }

    async fn claim(&self, sql: &str) -> sqlx::Result<Option<i64>> {
        let query = self.database.statement(sql);
        let query = query.bind(self.role.to_string()).bind(self.holder.clone());
        self.number(query.bind(to_millis(LEASE))).await
    }

    async fn ask(&self, sql: &str, number: i64) -> sqlx::Result<Option<i64>> {
        let query = self.database.statement(sql).bind(self.role.to_string()).bind(number);
        self.number(query.bind(to_millis(LEASE))).await
    }

    /// Runs a statement. If it fails or is dropped before the answer, its connection is closed.
    async fn number(&self, query: Statement) -> sqlx::Result<Option<i64>> {
        let connection = lock(&self.connection).take();
        let mut connection = match connection {
            Some(connection) => connection,
            None => self.database.connect().await?,
        };
        let row = query.fetch_optional(&mut connection).await?;
        *lock(&self.connection) = Some(connection);
        row.map(|row| row.try_get(0)).transpose()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Opens the image that a power loss left, and compares it with the promises.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt,
    path::Path,
};

use bezoar_core::{QueueAdmin, Transport};
use bezoar_sqlite::{SqliteTransport, Synchronous};
use rusqlite::{Connection, Row};
use tokio::runtime::Runtime;

use super::{
    database::{self, DATABASE},
    message::{body, message},
    promises::{MessageNumber, Place, Promises, State},
};

/// What is wrong with an image.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Messages that are not in the promised state.
    pub(crate) lost: Vec<String>,
    /// Damage that SQLite or the transport detects, and contradictions.
    pub(crate) corrupt: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.lost.is_empty() && self.corrupt.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (losses, first) = (self.lost.len(), self.lost.first());
        write!(f, "{losses} lost, first {first:?}; corrupt {:?}", self.corrupt)
    }
}

/// The bodies of the messages of a workload, created once.
pub(crate) type Bodies = HashMap<MessageNumber, Vec<u8>>;

pub(crate) fn bodies(promises: &Promises) -> Bodies {
    promises.messages().map(|number| (number, body(number))).collect()
}

/// Opens the database in a folder with the transport, and checks it.
pub(crate) struct Checker<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) bodies: &'a Bodies,
}

/// Whether an image is only checked, or also used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Usage<'a> {
    None,
    On(&'a Runtime),
}

impl Checker<'_> {
    pub(crate) fn check(&self, promises: &Promises, usage: Usage<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        match database::open(self.folder, Synchronous::Full) {
            Err(error) => {
                verdict.corrupt.push(format!("cannot be opened: {}", with_source(&error)))
            }
            Ok((transport, closed)) => {
                if let Err(error) = self.inspect(promises, &mut verdict) {
                    verdict.corrupt.push(format!("cannot be read: {error}"));
                }
                if let Usage::On(runtime) = usage {
                    let goes_on = runtime.block_on(goes_on(&transport));
                    goes_on.unwrap_or_else(|problem| verdict.corrupt.push(problem));
                }
                drop(transport);
                closed.wait();
            }
        }
        verdict
    }

    fn inspect(&self, promises: &Promises, verdict: &mut Verdict) -> rusqlite::Result<()> {
        let connection = Connection::open(self.folder.join(DATABASE))?;
        let integrity = column::<String>(&connection, "PRAGMA integrity_check")?;
        if integrity != ["ok"] {
            verdict.corrupt.push(format!("integrity: {integrity:?}"));
        }
        for (problem, query) in CONTRADICTIONS {
            let rows = column::<i64>(&connection, query)?;
            if !rows.is_empty() {
                verdict.corrupt.push(format!("{problem}: {rows:?}"));
            }
        }
        let found = self.messages(&connection, verdict)?;
        for number in promises.messages().chain(found.keys().copied().filter(is_not(promises))) {
            let found = found.get(&number).copied().unwrap_or(State::ABSENT);
            promises.check(number, found).unwrap_or_else(|problem| verdict.lost.push(problem));
        }
        let queues = column::<i64>(&connection, "SELECT id FROM bezoar_queues")?.len();
        if promises.queue && queues != 1 {
            verdict.lost.push(format!("there are {queues} queues"));
        }
        Ok(())
    }

    fn messages(
        &self,
        connection: &Connection,
        verdict: &mut Verdict,
    ) -> rusqlite::Result<BTreeMap<MessageNumber, State>> {
        let mut messages = BTreeMap::new();
        let mut select = connection.prepare(MESSAGES)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let number = row.get_ref(0)?.as_str()?.parse().unwrap_or(MessageNumber::MAX);
            if self.bodies.get(&number).map(Vec::as_slice) != Some(row.get_ref(1)?.as_bytes()?) {
                verdict.corrupt.push(format!("message {number}: its body is not what was sent"));
            }
            if messages.insert(number, state(row)?).is_some() {
                verdict.corrupt.push(format!("message {number}: it is there twice"));
            }
        }
        Ok(messages)
    }
}

fn is_not(promises: &Promises) -> impl Fn(&MessageNumber) -> bool {
    |number| !promises.knows(*number)
}

fn state(row: &Row<'_>) -> rusqlite::Result<State> {
    let place = match row.get_ref(2)?.as_str()? {
        "ready" => Place::Ready,
        "leased" => Place::Leased,
        _ => Place::Dead,
    };
    Ok(State { place, counters: [row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?] })
}

const MESSAGES: &str = "
    SELECT m.id, m.body, iif(w.token IS NULL, 'ready', 'leased'), w.acquired, w.failed, w.released, w.replayed
    FROM bezoar_waiting AS w JOIN bezoar_messages AS m USING (seq) JOIN bezoar_queues AS q ON q.id = w.queue
    UNION ALL
    SELECT m.id, m.body, 'dead', d.acquired, d.failed, d.released, d.replayed
    FROM bezoar_dead AS d JOIN bezoar_messages AS m USING (seq) JOIN bezoar_queues AS q ON q.id = d.queue";

/// Queries that must return no rows.
const CONTRADICTIONS: [(&str, &str); 5] = [
    (
        "messages in no place",
        "SELECT seq FROM bezoar_messages
         EXCEPT SELECT seq FROM (SELECT seq FROM bezoar_waiting UNION SELECT seq FROM bezoar_dead)",
    ),
    (
        "places without a message",
        "SELECT seq FROM (SELECT seq FROM bezoar_waiting UNION SELECT seq FROM bezoar_dead)
         EXCEPT SELECT seq FROM bezoar_messages",
    ),
    (
        "attempts without a message",
        "SELECT seq FROM bezoar_attempts EXCEPT SELECT seq FROM bezoar_messages",
    ),
    (
        "messages whose failures were not all recorded",
        "SELECT seq FROM (SELECT seq, failed, replayed FROM bezoar_waiting
                          UNION ALL SELECT seq, failed, replayed FROM bezoar_dead) AS place
         WHERE failed <> (SELECT count(*) FROM bezoar_attempts AS a
                          WHERE a.seq = place.seq AND a.generation = place.replayed)",
    ),
    (
        "queues that are counted wrong",
        "SELECT id FROM bezoar_queues AS q
         WHERE waiting <> (SELECT count(*) FROM bezoar_waiting AS w WHERE w.queue = q.id)
            OR dead <> (SELECT count(*) FROM bezoar_dead AS d WHERE d.queue = q.id)",
    ),
];

fn column<T: rusqlite::types::FromSql>(
    connection: &Connection,
    query: &str,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(query)?.query_map([], |row| row.get(0))?.collect()
}

/// Checks that the queue works after a power loss: it accepts a message and counts it.
async fn goes_on(transport: &SqliteTransport) -> Result<(), String> {
    let queue = database::queue();
    let failed = |error| format!("does not go on: {}", with_source(&error));
    transport.provision(&queue).await.map_err(failed)?;
    let before = transport.depth(&queue).await.map_err(failed)?;
    let mut sent = transport.send(&(&queue).into(), &[message(MessageNumber::MAX).into()]).await;
    sent.remove(0).map_err(failed)?;
    let after = transport.depth(&queue).await.map_err(failed)?;
    let is_counted = after.ready == before.ready.map(|ready| ready + 1);
    if is_counted { Ok(()) } else { Err(format!("does not count: {before:?}, {after:?}")) }
}

fn with_source(error: &dyn Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

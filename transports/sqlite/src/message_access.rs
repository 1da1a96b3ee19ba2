//! Looks at messages in queues. Every search reads a bounded number of rows.
//!
//! Rows of `bezoar_waiting` are in the order of delivery, and an index by message would be paid for by every delivery. So a
//! message is looked for among those that are leased or delayed, and at both ends of those that are ready: that is all of a
//! queue unless it is very long. Ids that are accepted once lead to the row of their message, which tells at once whether it
//! is still here.

use async_trait::async_trait;
use bezoar_core::{
    MessageAccess, MessageId, MessageLocation, MessageType, PeekPage, PeekPosition, QueueName,
    QueueState, QueuedMessage, TransportError, millis,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::{SqliteTransport, admin::find, error::no_queue, row};

/// How many rows of each part of a queue are searched.
const SEARCH_LIMIT: u32 = 10_000;
/// The most messages of a list.
const PAGE_LIMIT: u32 = 1_000;

const COLUMNS: &str = "w.visible_at, w.seq, w.token IS NOT NULL, w.acquired, w.failed,
    m.id, m.type, m.time, length(m.body), m.headers";

#[async_trait]
impl MessageAccess for SqliteTransport {
    async fn locate(
        &self,
        queue: &QueueName,
        id: &MessageId,
    ) -> Result<MessageLocation, TransportError> {
        let (name, id, now) = (queue.clone(), id.clone(), self.now_millis());
        let located = self.read("locate", move |it| match find(it, &name)? {
            Some(queue) => locate(it, queue, &id, now).map(Some),
            None => Ok(None),
        });
        located.await?.ok_or_else(|| no_queue(queue, "locate"))
    }

    async fn peek(
        &self,
        queue: &QueueName,
        page: PeekPage,
    ) -> Result<Vec<QueuedMessage>, TransportError> {
        let (name, now) = (queue.clone(), self.now_millis());
        let listed = self.read("peek", move |it| match find(it, &name)? {
            Some(queue) => peek(it, queue, page, now).map(Some),
            None => Ok(None),
        });
        listed.await?.ok_or_else(|| no_queue(queue, "peek"))
    }
}

impl SqliteTransport {
    fn now_millis(&self) -> i64 {
        self.options.clock.now().as_millisecond()
    }
}

fn locate(
    connection: &Connection,
    queue: i64,
    id: &MessageId,
    now: i64,
) -> rusqlite::Result<MessageLocation> {
    let accepted = accepted(connection, queue, id, now)?;
    if let Some(found) = search(connection, queue, id, now)? {
        return Ok(found);
    }
    let Some(seq) = accepted else { return Ok(MessageLocation::Unknown) };
    Ok(match place(connection, queue, seq)? {
        Place::Outside => MessageLocation::Left,
        Place::Blocked => MessageLocation::Blocked,
        Place::Waiting => MessageLocation::Queued,
    })
}

/// The row of a message whose id is accepted once, as long as that is remembered.
fn accepted(
    connection: &Connection,
    queue: i64,
    id: &MessageId,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT seq FROM bezoar_once WHERE queue = ?1 AND id = ?2 AND until > ?3 AND seq IS NOT NULL",
        )?
        .query_row(params![queue, id.as_str(), now], |row| row.get(0))
        .optional()
}

/// Where the row of a message is, of which nothing was found in the parts that were searched.
enum Place {
    Outside,
    Blocked,
    Waiting,
}

fn place(connection: &Connection, queue: i64, seq: i64) -> rusqlite::Result<Place> {
    let here: Option<(String, Option<String>)> = connection
        .prepare_cached("SELECT id, ordering_key FROM bezoar_messages WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, key)) = here else { return Ok(Place::Outside) };
    let is_dead: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM bezoar_dead WHERE message_id = ?1 AND seq = ?2)",
        )?
        .query_row(params![id, seq], |row| row.get(0))?;
    let is_blocked: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM bezoar_blocked WHERE queue = ?1 AND key = ?2 AND seq = ?3)",
        )?
        .query_row(params![queue, key, seq], |row| row.get(0))?;
    Ok(match (is_dead, is_blocked) {
        (true, _) => Place::Outside,
        (_, true) => Place::Blocked,
        _ => Place::Waiting,
    })
}

/// Searches what is leased or delayed, what became ready first, and what became ready last.
fn search(
    connection: &Connection,
    queue: i64,
    id: &MessageId,
    now: i64,
) -> rusqlite::Result<Option<MessageLocation>> {
    for part in [
        "visible_at > ?2 ORDER BY visible_at, seq",
        "visible_at <= ?2 ORDER BY visible_at, seq",
        "visible_at <= ?2 ORDER BY visible_at DESC, seq DESC",
    ] {
        let sql = format!(
            "SELECT {COLUMNS}
             FROM (SELECT * FROM bezoar_waiting WHERE queue = ?1 AND {part} LIMIT ?3) AS w
             CROSS JOIN bezoar_messages AS m ON m.seq = w.seq WHERE m.id = ?4 LIMIT 1"
        );
        let parameters = params![queue, now, SEARCH_LIMIT, id.as_str()];
        if let Some((state, message)) = queued(connection, &sql, parameters, now)?.pop() {
            return Ok(Some(MessageLocation::Found(state, message)));
        }
    }
    Ok(None)
}

fn peek(
    connection: &Connection,
    queue: i64,
    page: PeekPage,
    now: i64,
) -> rusqlite::Result<Vec<QueuedMessage>> {
    let state = match page.state {
        QueueState::Ready => "w.visible_at <= ?2",
        QueueState::Delayed => "w.visible_at > ?2 AND w.token IS NULL",
        QueueState::Leased => "w.visible_at > ?2 AND w.token IS NOT NULL",
    };
    let sql = format!(
        "SELECT {COLUMNS}
         FROM bezoar_waiting AS w CROSS JOIN bezoar_messages AS m ON m.seq = w.seq
         WHERE w.queue = ?1 AND {state} AND (w.visible_at, w.seq) > (?3, ?4)
         ORDER BY w.visible_at, w.seq LIMIT ?5"
    );
    let start = PeekPosition { due_millis: i64::MIN, number: i64::MIN };
    let after = page.after.unwrap_or(start);
    let limit = page.limit.get().min(PAGE_LIMIT);
    let parameters = params![queue, now, after.due_millis, after.number, limit];
    let listed = queued(connection, &sql, parameters, now)?;
    Ok(listed.into_iter().map(|(_, message)| message).collect())
}

fn queued(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    now: i64,
) -> rusqlite::Result<Vec<(QueueState, QueuedMessage)>> {
    connection.prepare_cached(sql)?.query_map(parameters, |row| read(row, now))?.collect()
}

fn read(row: &Row<'_>, now: i64) -> rusqlite::Result<(QueueState, QueuedMessage)> {
    let (due_millis, number, is_leased): (i64, i64, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let state = match (due_millis <= now, is_leased) {
        (true, _) => QueueState::Ready,
        (false, true) => QueueState::Leased,
        (false, false) => QueueState::Delayed,
    };
    let text = |column| row::text(row, column).map(Option::unwrap_or_default);
    let damaged_id = |_| MessageId::new(format!("message-{number}")).expect("a short word");
    let damaged_type = |_| MessageType::new("damaged").expect("a short word");
    let message = QueuedMessage {
        id: MessageId::new(text(5)?).unwrap_or_else(damaged_id),
        message_type: MessageType::new(text(6)?).unwrap_or_else(damaged_type),
        time: millis(row.get(7)?),
        due_at: millis(due_millis),
        acquired: row::count(row, 3)?,
        failed: row::count(row, 4)?,
        body_bytes: row.get::<_, i64>(8)?.max(0).unsigned_abs(),
        header_names: row::header_names(text(9)?),
        position: PeekPosition { due_millis, number },
    };
    Ok((state, message))
}

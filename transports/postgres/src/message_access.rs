//! Looks at messages in queues. Every search reads a bounded number of rows.
//!
//! Rows are in the order in which they are claimed, and an index by message would be paid for by every delivery. So a
//! message is looked for among those that are leased or blocked, and at both ends of those that are ready or delayed:
//! that is all of a queue unless it is very long.

use async_trait::async_trait;
use bezoar_core::{
    MessageAccess, MessageId, MessageLocation, MessageType, PeekPage, PeekPosition, QueueName,
    QueueState, QueuedMessage, TransportError, millis,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{
    PostgresTransport,
    database::{Database, Scope},
    row,
};

/// How many rows of each part of a queue are searched.
const SEARCH_LIMIT: i64 = 10_000;
/// The most messages of a list.
const PAGE_LIMIT: u32 = 1_000;

/// Parts of a queue. The first three have rows that can be shown.
const PARTS: [&str; 4] = [
    "SELECT until AS due_at, seq, bytes, acquired, failed, true AS leased
     FROM {schema}.leased WHERE queue = $1 ORDER BY until, seq LIMIT $2",
    "SELECT visible_at AS due_at, seq, bytes, acquired, failed, false AS leased
     FROM {schema}.ready WHERE queue = $1 ORDER BY visible_at, seq LIMIT $2",
    "SELECT visible_at AS due_at, seq, bytes, acquired, failed, false AS leased
     FROM {schema}.ready WHERE queue = $1 ORDER BY visible_at DESC, seq DESC LIMIT $2",
    "SELECT visible_at AS due_at, seq, bytes, acquired, failed, false AS leased
     FROM {schema}.blocked WHERE queue = $1 LIMIT $2",
];
const BLOCKED: usize = 3;

const COLUMNS: &str = "part.due_at, part.seq, part.bytes, part.acquired, part.failed, part.leased, m.id, m.type, m.time,
    m.headers, (SELECT {schema}.now_ms())";

#[async_trait]
impl MessageAccess for PostgresTransport {
    async fn locate(
        &self,
        queue: &QueueName,
        id: &MessageId,
    ) -> Result<MessageLocation, TransportError> {
        let number = self.number(queue, "locate").await?;
        let id = id.as_str().to_owned();
        self.database
            .run("locate", Scope::Snapshot, move |database, connection| {
                Box::pin(locate(database, connection, number, id.clone()))
            })
            .await
    }

    async fn peek(
        &self,
        queue: &QueueName,
        page: PeekPage,
    ) -> Result<Vec<QueuedMessage>, TransportError> {
        let number = self.number(queue, "peek").await?;
        let start = PeekPosition { due_millis: i64::MIN, number: i64::MIN };
        let after = page.after.unwrap_or(start);
        let limit = i64::from(page.limit.get().min(PAGE_LIMIT));
        let listed = self.database.run("peek", Scope::Read, move |database, connection| {
            let query = database.statement(&list(page.state)).bind(number);
            let query = query.bind(after.due_millis).bind(after.number).bind(limit);
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.iter().map(|row| Ok(queued(row)?.1)).collect::<sqlx::Result<Vec<_>>>()
            })
        });
        listed.await
    }
}

async fn locate(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    id: String,
) -> sqlx::Result<MessageLocation> {
    for (number, part) in PARTS.into_iter().enumerate() {
        let sql = format!(
            "SELECT {COLUMNS} FROM ({part}) AS part JOIN {{schema}}.messages AS m ON m.seq = part.seq
             WHERE m.id = $3 LIMIT 1"
        );
        let search = database.statement(&sql).bind(queue).bind(SEARCH_LIMIT).bind(id.clone());
        if let Some(row) = search.fetch_optional(&mut *connection).await? {
            let (state, message) = queued(&row)?;
            return Ok(match number {
                BLOCKED => MessageLocation::Blocked,
                _ => MessageLocation::Found(state, message),
            });
        }
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM {schema}.once
                              WHERE queue = $1 AND id = $3 AND until > (SELECT {schema}.now_ms())),
                      (SELECT count(*) FROM (SELECT 1 FROM {schema}.leased WHERE queue = $1 LIMIT $2) AS part) < $2
                      AND (SELECT count(*) FROM (SELECT 1 FROM {schema}.blocked WHERE queue = $1 LIMIT $2) AS part) < $2
                      AND (SELECT count(*) FROM (SELECT 1 FROM {schema}.ready WHERE queue = $1 LIMIT 2 * $2) AS part)
                          < 2 * $2";
    let seen = database.statement(sql).bind(queue).bind(SEARCH_LIMIT).bind(id);
    let row = seen.fetch_one(connection).await?;
    let (accepted, searched_all): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match accepted && searched_all {
        true => MessageLocation::Left,
        false => MessageLocation::Unknown,
    })
}

/// $1 queue, $2 and $3 the position before, $4 how many. A message whose lease has ended is ready.
fn list(state: QueueState) -> String {
    let part = |table: &str, due: &str, leased: bool, compared: &str| {
        format!(
            "(SELECT {due} AS due_at, seq, bytes, acquired, failed, {leased} AS leased
              FROM {{schema}}.{table}
              WHERE queue = $1 AND {due} {compared} (SELECT now FROM clock) AND ({due}, seq) > ($2, $3)
              ORDER BY {due}, seq LIMIT $4)"
        )
    };
    let parts = match state {
        QueueState::Ready => {
            [part("ready", "visible_at", false, "<="), part("leased", "until", true, "<=")]
                .join(" UNION ALL ")
        }
        QueueState::Delayed => part("ready", "visible_at", false, ">"),
        QueueState::Leased => part("leased", "until", true, ">"),
    };
    format!(
        "WITH clock AS MATERIALIZED (SELECT {{schema}}.now_ms() AS now)
         SELECT {COLUMNS} FROM ({parts}) AS part JOIN {{schema}}.messages AS m ON m.seq = part.seq
         ORDER BY part.due_at, part.seq LIMIT $4"
    )
}

fn queued(row: &PgRow) -> sqlx::Result<(QueueState, QueuedMessage)> {
    let count = |column: usize| row.try_get::<i32, _>(column).map(|it| it.max(0).unsigned_abs());
    let (due_millis, number, now): (i64, i64, i64) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(10)?);
    let state = match (due_millis <= now, row.try_get(5)?) {
        (true, _) => QueueState::Ready,
        (false, true) => QueueState::Leased,
        (false, false) => QueueState::Delayed,
    };
    let damaged_id = |_| MessageId::new(format!("row-{number}")).expect("a short word");
    let damaged_type = |_| MessageType::new("damaged").expect("a short word");
    let message = QueuedMessage {
        id: MessageId::new(row.try_get::<&str, _>(6)?).unwrap_or_else(damaged_id),
        message_type: MessageType::new(row.try_get::<&str, _>(7)?).unwrap_or_else(damaged_type),
        time: millis(row.try_get(8)?),
        due_at: millis(due_millis),
        acquired: count(3)?,
        failed: count(4)?,
        body_bytes: count(2)?.into(),
        header_names: row::header_names(row.try_get(9)?),
        position: PeekPosition { due_millis, number },
    };
    Ok((state, message))
}

//! Messages as columns: a statement stores many of them from one array per column.

use bezoar_core::{ContentType, CorrelationId, Message, MessageId, OrderingKey};
use sqlx::{Postgres, postgres::PgArguments, query::Query};

use crate::{
    ledger_json,
    row::{count, headers_to_json},
};

/// What the senders made, with the numbers of the queues.
#[derive(Debug)]
pub(crate) struct MessageColumns {
    queues: Vec<i32>,
    ids: Vec<String>,
    types: Vec<String>,
    correlation_ids: Vec<Option<String>>,
    causation_ids: Vec<Option<String>>,
    content_types: Vec<Option<String>>,
    headers: Vec<Option<String>>,
    times: Vec<i64>,
    expiries: Vec<Option<i64>>,
    bodies: Vec<Vec<u8>>,
}

impl MessageColumns {
    pub(crate) fn of<'a>(messages: impl Iterator<Item = (i32, &'a Message)> + Clone) -> Self {
        let all = || messages.clone().map(|(_, message)| message);
        let text = |it: &str| it.to_owned();
        Self {
            queues: messages.clone().map(|(queue, _)| queue).collect(),
            ids: all().map(|it| text(it.id.as_str())).collect(),
            types: all().map(|it| text(it.message_type.as_str())).collect(),
            correlation_ids: all()
                .map(|it| it.correlation_id.as_ref().map(CorrelationId::as_str).map(text))
                .collect(),
            causation_ids: all()
                .map(|it| it.causation_id.as_ref().map(MessageId::as_str).map(text))
                .collect(),
            content_types: all()
                .map(|it| it.content_type.as_ref().map(ContentType::as_str).map(text))
                .collect(),
            headers: all().map(|it| headers_to_json(&it.headers)).collect(),
            times: all().map(|it| it.time.as_millisecond()).collect(),
            expiries: all().map(|it| it.expires_at.map(|at| at.as_millisecond())).collect(),
            bodies: all().map(|it| it.body.reveal().to_vec()).collect(),
        }
    }

    /// Binds ten parameters.
    pub(crate) fn bind<'q>(
        self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(self.queues)
            .bind(self.ids)
            .bind(self.types)
            .bind(self.correlation_ids)
            .bind(self.causation_ids)
            .bind(self.content_types)
            .bind(self.headers)
            .bind(self.times)
            .bind(self.expiries)
            .bind(self.bodies)
    }
}

/// The counters and details of ledgers.
#[derive(Debug)]
pub(crate) struct LedgerColumns {
    acquired: Vec<i32>,
    failed: Vec<i32>,
    released: Vec<i32>,
    replayed: Vec<i32>,
    details: Vec<Option<String>>,
}

impl LedgerColumns {
    pub(crate) fn of<'a>(messages: impl Iterator<Item = &'a Message> + Clone) -> Self {
        let ledgers = || messages.clone().map(|it| &it.ledger);
        Self {
            acquired: ledgers().map(|it| count(it.acquired)).collect(),
            failed: ledgers().map(|it| count(it.failed)).collect(),
            released: ledgers().map(|it| count(it.released)).collect(),
            replayed: ledgers().map(|it| count(it.replayed)).collect(),
            details: ledgers().map(ledger_json::write).collect(),
        }
    }

    /// Binds five parameters.
    pub(crate) fn bind<'q>(
        self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(self.acquired)
            .bind(self.failed)
            .bind(self.released)
            .bind(self.replayed)
            .bind(self.details)
    }
}

/// The ordering key of a message.
pub(crate) fn ordering_key(message: &Message) -> Option<String> {
    message.ordering_key.as_ref().map(OrderingKey::as_str).map(str::to_owned)
}

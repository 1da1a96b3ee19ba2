//! Finds the dead letters that match a filter.
//!
//! Queue, type, kind, code and cause are attributes of causes, of which there are few: the causes that fit are chosen
//! first. Then one index leads to their dead letters, newest death first, and what is left of the filter is asked of each
//! row. Every index that a list uses has the time of death and then the id, so that nothing is sorted.

use std::collections::{BTreeMap, HashMap};

use bezoar_core::catalogue::{Filter, OperationKind, SELECTION_LIMIT};
use jiff::Timestamp;
use sqlx::Row;

use crate::catalogue::session::{Session, Statement, number};

/// If the chosen causes have at most this many dead letters for a page, the page is merged from them; with more, the
/// walk over all dead letters soon finds enough.
const MERGE_LIMIT: u64 = 20_000;
/// How many rows are read for a count.
const LOOK_LIMIT: i64 = 20_000;

/// The name of a dead letter's state, as
/// [`DeadLetterState::as_str`](bezoar_core::catalogue::DeadLetterState::as_str) returns it.
const STATE: &str = "CASE WHEN EXISTS (SELECT 1 FROM {schema}.operations AS o
        WHERE o.id = d.operation AND o.state NOT IN ('cancelled', 'ended', 'void')) THEN 'held'
    WHEN d.edited_as IS NOT NULL THEN 'edited' WHEN d.unapproved THEN 'unapproved' ELSE 'open' END";

/// The times that are asked for: $1 the first, ($2, $3) the position before which they end.
const SPAN: &str = "d.died_at >= $1 AND (d.died_at, d.id) < ($2, $3)";

/// What is asked of each row: $5 message id, $6 correlation id, $7 causes, $8 latest arrival, $9 least attempts,
/// $10 whether it was replayed, $11 state. Each is NULL if it does not matter. $4 is a limit.
fn fits() -> String {
    format!(
        "($5::text IS NULL OR d.message_id = $5) AND ($6::text IS NULL OR d.correlation_id = $6)
         AND ($7::text[] IS NULL OR d.cause IN (SELECT unnest($7::text[])))
         AND ($8::bigint IS NULL OR d.arrived_at < $8) AND ($9::bigint IS NULL OR d.failed >= $9)
         AND ($10::boolean IS NULL OR (d.replayed > 0) = $10) AND ($11::text IS NULL OR {STATE} = $11)"
    )
}

/// A time of death and an id: lists are ordered by this.
pub(crate) type Position = (i64, i64);

/// The position before the newest row.
pub(crate) const END: Position = (i64::MAX, i64::MAX);

/// A filter, and the causes that it chooses.
#[derive(Debug)]
pub(crate) struct Sieve {
    filter: Filter,
    causes: Option<HashMap<String, u64>>,
}

/// Which index leads to the dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Message,
    Correlation,
    Held,
    Versions,
    Replayed,
    Causes,
    Arrivals,
    All,
}

impl Way {
    /// The condition that the index fulfils.
    const fn condition(self) -> &'static str {
        match self {
            Self::Message => "d.message_id = $5",
            Self::Correlation => "d.correlation_id = $6",
            Self::Held => "d.operation IS NOT NULL",
            Self::Versions => "(d.edited_as IS NOT NULL OR d.unapproved)",
            Self::Replayed => "d.replayed > 0",
            Self::Causes => "d.cause = ANY ($7)",
            Self::Arrivals => "d.arrived_at < $8",
            Self::All => "true",
        }
    }

    /// The order of the index, for those who want no other.
    const fn order(self) -> &'static str {
        match self {
            Self::Causes => "",
            Self::Arrivals => "ORDER BY d.arrived_at, d.id",
            _ => "ORDER BY d.died_at DESC, d.id DESC",
        }
    }
}

impl Sieve {
    pub(crate) async fn new(session: &mut Session<'_>, filter: &Filter) -> sqlx::Result<Self> {
        Ok(Self { causes: chosen_causes(session, filter).await?, filter: filter.clone() })
    }

    /// The matching causes with their counts; `None` if all match.
    pub(crate) fn causes(&self) -> Option<&HashMap<String, u64>> {
        self.causes.as_ref()
    }

    /// The ids of a page of matching dead letters, after a position.
    pub(crate) async fn page(
        &self,
        session: &mut Session<'_>,
        after: Position,
        limit: u32,
    ) -> sqlx::Result<Vec<i64>> {
        let (fits, order) = (fits(), "ORDER BY d.died_at DESC, d.id DESC LIMIT $4");
        let way = self.way();
        let rows_to_merge = self.causes.iter().flat_map(HashMap::values);
        let rows_to_merge: u64 = rows_to_merge.map(|count| (*count).min(limit.into())).sum();
        let sql = match way {
            Way::Causes if rows_to_merge <= MERGE_LIMIT => format!(
                "SELECT d.id FROM unnest($7::text[]) AS chosen (cause) CROSS JOIN LATERAL (
                     SELECT d.died_at, d.id FROM {{schema}}.dead AS d
                     WHERE d.cause = chosen.cause AND {SPAN} AND {fits} {order}
                 ) AS d {order}"
            ),
            Way::Causes | Way::Arrivals => {
                format!("SELECT d.id FROM {{schema}}.dead AS d WHERE {SPAN} AND {fits} {order}")
            }
            way => format!(
                "SELECT d.id FROM {{schema}}.dead AS d WHERE {} AND {SPAN} AND {fits} {order}",
                way.condition()
            ),
        };
        let select = self.statement(session, &sql, after, limit.into());
        session.all(select).await?.iter().map(|row| row.try_get(0)).collect()
    }

    /// How many dead letters match, and whether all rows that may match were looked at.
    pub(crate) async fn count(&self, session: &mut Session<'_>) -> sqlx::Result<(u64, bool)> {
        let sql = format!(
            "SELECT count(*) FILTER (WHERE fits), count(*) FROM ({}) AS seen",
            self.looked_at(&format!("({}) AS fits", fits()))
        );
        let select = self.statement(session, &sql, END, LOOK_LIMIT + 1);
        let row = session.one(select).await?;
        Ok((number(&row, 0)?, row.try_get::<i64, _>(1)? <= LOOK_LIMIT))
    }

    /// How many matching dead letters each cause has, within the rows that are looked at.
    pub(crate) async fn causes_with_matches(
        &self,
        session: &mut Session<'_>,
    ) -> sqlx::Result<HashMap<String, u64>> {
        let sql = format!(
            "SELECT cause, count(*) FROM ({}) AS seen WHERE fits AND cause IS NOT NULL GROUP BY cause",
            self.looked_at(&format!("d.cause, ({}) AS fits", fits()))
        );
        let select = self.statement(session, &sql, END, LOOK_LIMIT);
        let rows = session.all(select).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, number(row, 1)?))).collect()
    }

    /// The matching dead letters that an operation of this kind can take, in the order of their ids, how many it
    /// cannot take, and which operations hold some of those. A replay takes open dead letters; a discard takes
    /// everything that no operation holds.
    pub(crate) async fn select(
        &self,
        session: &mut Session<'_>,
        kind: OperationKind,
    ) -> sqlx::Result<(Vec<i64>, u64, BTreeMap<i64, u64>)> {
        let sql = format!(
            "WITH found AS MATERIALIZED (
                 SELECT d.id, d.operation, {STATE} AS state FROM {{schema}}.dead AS d
                 WHERE {} AND {SPAN} AND {} LIMIT $4
             ), held AS (
                 SELECT operation, count(*) AS count FROM found WHERE state = 'held' GROUP BY operation
             )
             SELECT ARRAY(SELECT id FROM found WHERE state = 'open' OR ($12 AND state <> 'held') ORDER BY id),
                    (SELECT count(*) FROM found WHERE NOT (state = 'open' OR ($12 AND state <> 'held'))),
                    ARRAY(SELECT operation FROM held ORDER BY operation),
                    ARRAY(SELECT count FROM held ORDER BY operation)",
            self.way().condition(),
            fits()
        );
        let limit = SELECTION_LIMIT as i64 + 1;
        let select = self.statement(session, &sql, END, limit).bind(kind == OperationKind::Discard);
        let row = session.one(select).await?;
        let (holders, counts): (Vec<i64>, Vec<i64>) = (row.try_get(2)?, row.try_get(3)?);
        let held = holders.into_iter().zip(counts.into_iter().map(i64::unsigned_abs)).collect();
        Ok((row.try_get(0)?, number(&row, 1)?, held))
    }

    /// The rows that may match, as many as are looked at.
    fn looked_at(&self, columns: &str) -> String {
        let way = self.way();
        format!(
            "SELECT {columns} FROM {{schema}}.dead AS d WHERE {} AND {SPAN} {} LIMIT $4",
            way.condition(),
            way.order()
        )
    }

    fn statement(
        &self,
        session: &Session<'_>,
        sql: &str,
        after: Position,
        limit: i64,
    ) -> Statement {
        let Filter { since, until, arrived_before, min_attempts, replayed, state, .. } =
            &self.filter;
        let time = |time: &Option<Timestamp>| time.map(|time| time.as_millisecond());
        let before = after.min((time(until).unwrap_or(i64::MAX), i64::MIN));
        let before = if until.is_some() { before } else { after };
        let causes: Option<Vec<String>> =
            self.causes.as_ref().map(|causes| causes.keys().cloned().collect());
        session
            .query(sql)
            .bind(time(since).unwrap_or(i64::MIN))
            .bind(before.0)
            .bind(before.1)
            .bind(limit)
            .bind(self.filter.message_id.as_ref().map(|id| id.as_str().to_owned()))
            .bind(self.filter.correlation_id.as_ref().map(|id| id.as_str().to_owned()))
            .bind(causes)
            .bind(time(arrived_before))
            .bind(min_attempts.map(i64::from))
            .bind(*replayed)
            .bind(*state)
    }

    fn way(&self) -> Way {
        let Filter { correlation_id, message_id, replayed, state, arrived_before, .. } =
            &self.filter;
        match (state, replayed) {
            _ if message_id.is_some() => Way::Message,
            _ if correlation_id.is_some() => Way::Correlation,
            (Some("held"), _) => Way::Held,
            (Some("edited" | "unapproved"), _) => Way::Versions,
            (_, Some(true)) => Way::Replayed,
            _ if self.causes.is_some() => Way::Causes,
            _ if arrived_before.is_some() => Way::Arrivals,
            _ => Way::All,
        }
    }
}

/// The causes that a filter selects, with their counts; `None` if it has no condition on causes.
async fn chosen_causes(
    session: &mut Session<'_>,
    filter: &Filter,
) -> sqlx::Result<Option<HashMap<String, u64>>> {
    if !filter.chooses_causes() {
        return Ok(None);
    }
    let Filter { queues, message_type, kind, code, cause, min_attempts, .. } = filter;
    let queues: Option<Vec<String>> =
        queues.as_ref().map(|queues| queues.iter().map(ToString::to_string).collect());
    let select = session
        .query(
            "SELECT id, count FROM {schema}.cause_totals
             WHERE count > 0
               AND ($1::text[] IS NULL OR queue IN (SELECT q.id FROM {schema}.queues AS q WHERE q.name = ANY ($1)))
               AND ($2::text IS NULL OR type = $2) AND ($3::text IS NULL OR kind = $3)
               AND ($4::text IS NULL OR code = $4) AND ($5::text IS NULL OR id = $5)
               AND attempts >= $6",
        )
        .bind(queues)
        .bind(message_type.as_ref().map(|it| it.as_str().to_owned()))
        .bind(kind.map(|it| it.as_str()))
        .bind(code.as_ref().map(|it| it.as_str().to_owned()))
        .bind(cause.as_ref().map(|it| it.as_str().to_owned()))
        .bind(i64::from(min_attempts.unwrap_or(0)));
    let rows = session.all(select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, number(row, 1)?)))
        .collect::<sqlx::Result<_>>()
        .map(Some)
}

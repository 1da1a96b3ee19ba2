//! Translates a filter into causes and ranges of ids, before any rows are read.

use std::collections::{HashMap, HashSet};

use bezoar_core::catalogue::Filter;
use rusqlite::{Connection, OptionalExtension, params};

/// The first id whose dead letter arrived at or after a time, found by binary search.
pub(crate) fn first_since(connection: &Connection, time: i64) -> rusqlite::Result<i64> {
    let (low, high): (Option<i64>, Option<i64>) = connection
        .prepare_cached(
            "SELECT (SELECT min(id) FROM bezoar_dead), (SELECT max(id) FROM bezoar_dead)",
        )?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(mut low), Some(high)) = (low, high) else { return Ok(i64::MAX) };
    let mut high = high.saturating_add(1);
    let mut at = connection
        .prepare_cached("SELECT id, at FROM bezoar_dead WHERE id >= ?1 ORDER BY id LIMIT 1")?;
    while low < high {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> =
            at.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some((id, at)) if at < time => low = id + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Operations that have not ended and hold their dead letters.
pub(crate) fn unended(connection: &Connection) -> rusqlite::Result<HashSet<i64>> {
    connection
        .prepare_cached(
            "SELECT id FROM bezoar_operations INDEXED BY bezoar_operations_unended
             WHERE state NOT IN ('cancelled', 'ended', 'void')",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The causes that a filter selects, with their counts; `None` if it has no condition on causes.
pub(crate) fn chosen_causes(
    connection: &Connection,
    filter: &Filter,
) -> rusqlite::Result<Option<HashMap<i64, u64>>> {
    if !filter.chooses_causes() {
        return Ok(None);
    }
    let Filter { queues, message_type, kind, code, cause, min_attempts, .. } = filter;
    let queues: Option<Vec<&str>> =
        queues.as_ref().map(|queues| queues.iter().map(|queue| queue.as_str()).collect());
    let queues = queues.map(|names| serde_json::Value::from(names).to_string());
    let found = connection
        .prepare_cached(
            "SELECT number, count FROM bezoar_causes
             WHERE count > 0
               AND (?1 IS NULL OR queue IN (SELECT id FROM bezoar_queues
                                            WHERE name IN (SELECT value FROM json_each(?1))))
               AND (?2 IS NULL OR type = ?2) AND (?3 IS NULL OR kind = ?3)
               AND (?4 IS NULL OR code = ?4) AND (?5 IS NULL OR id = ?5)
               AND attempts >= ?6",
        )?
        .query_map(
            params![
                queues,
                message_type.as_ref().map(|it| it.as_str()),
                kind.map(|it| it.as_str()),
                code.as_ref().map(|it| it.as_str()),
                cause.as_ref().map(|it| it.as_str()),
                min_attempts.unwrap_or(0),
            ],
            |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())),
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(found))
}

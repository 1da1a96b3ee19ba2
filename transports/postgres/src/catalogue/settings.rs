//! Small settings that survive a restart, such as which routes are paused.

use bezoar_core::catalogue::AuditedAction;
use sqlx::Row;

use super::{audit, session::Session};
use crate::row::without_nul;

pub(crate) async fn setting(session: &mut Session<'_>, name: &str) -> sqlx::Result<Option<String>> {
    let select = session.query("SELECT value FROM {schema}.settings WHERE name = $1");
    let select = select.bind(without_nul(name.to_owned()));
    session.optional(select).await?.map(|row| row.try_get(0)).transpose()
}

/// Changes a row of its own, so that there is something to write.
pub(crate) async fn touch(session: &mut Session<'_>) -> sqlx::Result<()> {
    let touch = session.query(
        "INSERT INTO {schema}.settings (name, value) VALUES ('checked', gen_random_uuid()::text)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    );
    session.execute(touch).await.map(drop)
}

pub(crate) async fn set(
    session: &mut Session<'_>,
    (name, value): (&str, Option<&str>),
    action: &AuditedAction,
) -> sqlx::Result<()> {
    let change = match value {
        Some(value) => session
            .query(
                "INSERT INTO {schema}.settings (name, value) VALUES ($1, $2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            )
            .bind(without_nul(name.to_owned()))
            .bind(without_nul(value.to_owned())),
        None => session
            .query("DELETE FROM {schema}.settings WHERE name = $1")
            .bind(without_nul(name.to_owned())),
    };
    session.execute(change).await?;
    audit::append(session, action).await
}

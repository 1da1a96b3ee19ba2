//! Creates, upgrades and checks the schema.

use bezoar_core::{ErrorKind, QueueName, TransportError};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::{
    Options,
    error::{error, from_sqlx, is_missing, standby, unusable},
    schema_name::SchemaName,
};

/// Each makes the next version from the one before. Never changed once released.
const MIGRATIONS: &[&str] =
    &[include_str!("../migrations/0001.sql"), include_str!("../migrations/0002.sql")];
/// The version of the schema that this program works with.
const VERSION: usize = MIGRATIONS.len();
/// What `meta` needs before the first migration.
const FIRST: &str = "CREATE TABLE {schema}.meta (version integer NOT NULL);\nINSERT INTO {schema}.meta VALUES (0);\n";
/// The oldest server whose SQL suffices.
const OLDEST_SERVER: i32 = 130_000;

const TABLES: [&str; 25] = [
    "meta",
    "queues",
    "messages",
    "ready",
    "leased",
    "ledgers",
    "once",
    "ordering_keys",
    "blocked",
    "dead",
    "causes",
    "cause_changes",
    "operations",
    "operation_queues",
    "operation_held",
    "items",
    "outcomes",
    "stamps",
    "taken",
    "announced",
    "audit",
    "audit_head",
    "settings",
    "store_key",
    "leaders",
];

/// The SQL that creates a schema of this version, for people who run migrations themselves.
///
/// # Panics
///
/// Never.
pub fn schema_script(schema: &str) -> String {
    let name = SchemaName::new(schema);
    let quoted = name.quoted();
    format!(
        "BEGIN;\nCREATE SCHEMA IF NOT EXISTS {quoted};\n{}{}COMMIT;\n\n-- For a user who only works with the queues:\n{}",
        name.fill(FIRST),
        upgrade(&name, 0),
        grants(&name, "USER").lines().map(|line| format!("-- {line}\n")).collect::<String>(),
    )
}

/// The SQL that creates a schema and queues in it.
pub(crate) fn plan(schema: &str, queues: &[QueueName]) -> String {
    let insert = SchemaName::new(schema).fill("INSERT INTO {schema}.queues (name) VALUES");
    let queues = queues
        .iter()
        .map(|queue| format!("{insert} ({}) ON CONFLICT DO NOTHING;\n", text(queue.as_str())));
    format!("{}\n{}", schema_script(schema), queues.collect::<String>())
}

/// The SQL from version `from` to this one.
fn upgrade(name: &SchemaName, from: usize) -> String {
    let mut sql: String = MIGRATIONS[from..].iter().map(|migration| name.fill(migration)).collect();
    sql.push_str(&name.fill(&format!("\nUPDATE {{schema}}.meta SET version = {VERSION};\n")));
    sql
}

/// What a user needs who only works with the queues.
fn grants(name: &SchemaName, user: &str) -> String {
    let schema = name.quoted();
    format!(
        "GRANT USAGE ON SCHEMA {schema} TO {user};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user};\n\
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {user};\n\
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {user};"
    )
}

/// What was found in a database that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// The schema is of this version and complete, and the user may work with it.
    Ready,
    /// There is no schema. It is created on first use.
    Missing,
    /// The schema has this older version. It is upgraded on first use.
    Older(usize),
}

/// Makes sure that the schema is there and of this version, and that the user may work with it.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    options: &Options,
) -> Result<(), TransportError> {
    if examine(connection, options).await? != SchemaState::Ready {
        let name = SchemaName::new(&options.schema);
        migrate(connection, &name).await?;
        check_usable(connection, &name).await?;
    }
    Ok(())
}

/// Looks whether the schema can be used as it is, or created or upgraded, and changes nothing.
pub(crate) async fn examine(
    connection: &mut PgConnection,
    options: &Options,
) -> Result<SchemaState, TransportError> {
    let name = SchemaName::new(&options.schema);
    check_server(connection).await?;
    let version = match version(connection, &name).await {
        Err(denied) if is_denied(&denied) => {
            return Err(denied_because(&name, "USAGE on the schema"));
        }
        version => version.map_err(|source| from_sqlx(&source, "open"))?,
    };
    match version {
        Some(version) if version > VERSION => Err(unusable(format!(
            "schema {} has version {version}, this program knows {VERSION}; upgrade this program",
            name.quoted()
        ))),
        Some(VERSION) => check_usable(connection, &name).await.map(|()| SchemaState::Ready),
        Some(version) if options.migrate => Ok(SchemaState::Older(version)),
        None if options.migrate => Ok(SchemaState::Missing),
        Some(version) => Err(unusable(format!(
            "schema {} has version {version}, this program needs {VERSION}; upgrade it as its owner, with migrate on",
            name.quoted()
        ))),
        None => Err(unusable(format!(
            "there is no schema {}, and migrate is off; create it as its owner, with migrate on or with the printed SQL",
            name.quoted()
        ))),
    }
}

async fn check_usable(
    connection: &mut PgConnection,
    name: &SchemaName,
) -> Result<(), TransportError> {
    check_complete(connection, name).await?;
    check_privileges(connection, name).await
}

async fn check_server(connection: &mut PgConnection) -> Result<(), TransportError> {
    let sql =
        "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
                      pg_is_in_recovery()";
    let row = one(connection, sql.to_owned()).await?;
    let (version, encoding): (i32, String) = (get(&row, 0)?, get(&row, 1)?);
    if get(&row, 2)? {
        return Err(standby("open"));
    }
    if version < OLDEST_SERVER {
        return Err(unusable(format!(
            "the server is PostgreSQL {}, at least {} is needed; upgrade it",
            version / 10_000,
            OLDEST_SERVER / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(unusable(format!(
            "the database has the encoding {encoding}, which cannot hold every text; create one with ENCODING 'UTF8'"
        )));
    }
    Ok(())
}

/// The version of the schema; `None` if there is none.
async fn version(
    connection: &mut PgConnection,
    name: &SchemaName,
) -> Result<Option<usize>, sqlx::Error> {
    let sql = name.fill("SELECT version FROM {schema}.meta");
    match sqlx::raw_sql(AssertSqlSafe(sql)).fetch_optional(connection).await {
        Ok(Some(row)) => Ok(Some(usize::try_from(row.try_get::<i32, _>(0)?).unwrap_or(usize::MAX))),
        // The table without its row: somebody began and did not finish. `check_complete` would say so too late.
        Ok(None) => Ok(Some(0)),
        Err(missing) if is_missing(&missing) => Ok(None),
        Err(source) => Err(source),
    }
}

/// Creates or upgrades the schema in one transaction. Of several processes that start together, one does it.
async fn migrate(connection: &mut PgConnection, name: &SchemaName) -> Result<(), TransportError> {
    let failed = |source: sqlx::Error| match is_denied(&source) {
        true => denied_because(
            name,
            "CREATE on the database or on the schema, which migrating needs (or turn migrate off)",
        ),
        false => from_sqlx(&source, "migrate"),
    };
    let mut transaction = connection.begin().await.map_err(failed)?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('bezoar schema ' || $1, 0))";
    let locked = sqlx::query(lock).persistent(false).bind(name.as_str().to_owned());
    locked.execute(&mut *transaction).await.map_err(failed)?;
    let exists = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1),
                         EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                                 WHERE n.nspname = $1 AND c.relname = 'meta')";
    let exists = sqlx::query(exists).persistent(false).bind(name.as_str().to_owned());
    let row = exists.fetch_one(&mut *transaction).await.map_err(failed)?;
    let (has_schema, has_meta): (bool, bool) = (get(&row, 0)?, get(&row, 1)?);
    let mut sql = String::new();
    if !has_schema {
        sql.push_str(&name.fill("CREATE SCHEMA {schema};\n"));
    }
    let from = match has_meta {
        true => version(&mut transaction, name).await.map_err(failed)?.unwrap_or(0),
        false => {
            sql.push_str(&name.fill(FIRST));
            0
        }
    };
    if from < VERSION {
        sql.push_str(&upgrade(name, from));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// A schema whose tables somebody dropped, or created only in part, is refused before it is worked with.
async fn check_complete(
    connection: &mut PgConnection,
    name: &SchemaName,
) -> Result<(), TransportError> {
    let sql = format!(
        "SELECT string_agg(name, ', ') FROM unnest('{{{}}}'::text[]) AS name
         WHERE NOT EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                           WHERE n.nspname = {} AND c.relname = name)",
        TABLES.join(","),
        text(name.as_str()),
    );
    match get::<Option<String>>(&one(connection, sql).await?, 0)? {
        None => Ok(()),
        Some(missing) => Err(unusable(format!(
            "schema {} is incomplete, it lacks {missing}; restore a backup, or drop the schema to start anew",
            name.quoted()
        ))),
    }
}

async fn check_privileges(
    connection: &mut PgConnection,
    name: &SchemaName,
) -> Result<(), TransportError> {
    let sql = format!(
        "SELECT string_agg(missing, ', ') FROM (
             SELECT privilege || ' on ' || c.relname AS missing
             FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace,
                  unnest('{{SELECT,INSERT,UPDATE,DELETE}}'::text[]) AS privilege
             WHERE n.nspname = {schema} AND c.relname = ANY ('{{{tables}}}'::text[]) AND c.relname <> 'meta'
                   AND NOT has_table_privilege(c.oid, privilege)
             UNION ALL
             SELECT 'USAGE on ' || c.relname
             FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
             WHERE n.nspname = {schema} AND c.relname = 'message_seq' AND NOT has_sequence_privilege(c.oid, 'USAGE')
         ) AS missing",
        schema = text(name.as_str()),
        tables = TABLES.join(","),
    );
    match get::<Option<String>>(&one(connection, sql).await?, 0)? {
        None => Ok(()),
        Some(missing) => Err(denied_because(name, &missing)),
    }
}

fn denied_because(name: &SchemaName, missing: &str) -> TransportError {
    let problem = format!("the user lacks {missing}; as the owner run:\n{}", grants(name, "USER"));
    error(ErrorKind::NotAuthorized, "open").with_source(problem)
}

fn is_denied(source: &sqlx::Error) -> bool {
    source.as_database_error().and_then(|it| it.code()).as_deref() == Some("42501")
}

/// A text as a literal.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Runs a statement without parameters in the simple protocol, which every pooler can carry.
async fn one(
    connection: &mut PgConnection,
    sql: String,
) -> Result<sqlx::postgres::PgRow, TransportError> {
    let fetched = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(connection).await;
    fetched.map_err(|source| from_sqlx(&source, "open"))
}

fn get<T>(row: &sqlx::postgres::PgRow, column: usize) -> Result<T, TransportError>
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(column).map_err(|source| from_sqlx(&source, "open"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_transaction_for_the_schema_that_was_named() {
        let script = schema_script("Lab's");
        assert!(script.starts_with("BEGIN;\nCREATE SCHEMA IF NOT EXISTS \"Lab's\";\n"), "{script}");
        assert!(script.contains("nextval('\"Lab''s\".message_seq')"), "{script}");
        assert!(script.contains("UPDATE \"Lab's\".meta SET version = 2;\nCOMMIT;"), "{script}");
        assert!(!script.contains("{schema"), "{script}");
        for table in TABLES {
            assert!(script.contains(&format!("CREATE TABLE \"Lab's\".{table} (")), "{table}");
        }
    }
}

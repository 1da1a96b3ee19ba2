//! The SQL of the queues, in `sql/`, filled with the name of a schema once.

use std::sync::Arc;

use crate::schema_name::SchemaName;

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement that works on the tables.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: Arc<str>,)*
        }

        impl Statements {
            pub(crate) fn of(schema: &SchemaName) -> Self {
                Self {
                    $($name: schema.fill(include_str!(concat!("../sql/", stringify!($name), ".sql"))).into(),)*
                }
            }
        }
    };
}

statements!(
    add_queue,
    claim,
    complete,
    completed,
    dead_letter,
    dead_letters,
    depth,
    discard,
    extend,
    failed_again,
    feed_next,
    feed_release,
    find_queue,
    hold_keys,
    insert_all,
    insert_fresh,
    last_dead,
    list_queues,
    lock_dead,
    lock_keys,
    next_due,
    notify,
    put_back,
    remember_once,
    replay,
    replays,
    take_dead,
    unblock,
    unclaim,
);

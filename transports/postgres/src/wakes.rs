//! Wakes receivers as soon as a message of their queue is ready.
//!
//! Within this process by a signal. Other processes are told by `NOTIFY`, after the commit and at most every few
//! milliseconds: a notification within the transaction would make all commits wait for each other. It is only a hint:
//! receivers also poll.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::postgres::{PgListener, PgPool};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use crate::{
    database::{Database, Scope},
    schema_name::SchemaName,
};

/// The least time between two notifications.
const PAUSE: Duration = Duration::from_millis(10);
/// How long to wait before listening again after the connection was lost.
const RECONNECT: Duration = Duration::from_secs(2);

/// One signal per queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wakes(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    signals: Mutex<HashMap<i32, Arc<Notify>>>,
    /// Queues that other processes have not been told of.
    untold: Mutex<BTreeSet<i32>>,
    tell: Notify,
}

impl Wakes {
    /// The signal of a queue.
    pub(crate) fn of(&self, number: i32) -> Arc<Notify> {
        lock(&self.0.signals).entry(number).or_default().clone()
    }

    /// Wakes every receiver that waits for the queue, here and in other processes.
    pub(crate) fn wake(&self, number: i32) {
        self.wake_here(number);
        if lock(&self.0.untold).insert(number) {
            self.0.tell.notify_one();
        }
    }

    fn wake_here(&self, number: i32) {
        if let Some(signal) = lock(&self.0.signals).get(&number) {
            signal.notify_waiters();
        }
    }

    fn wake_all_here(&self) {
        lock(&self.0.signals).values().for_each(|signal| signal.notify_waiters());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells other processes, and listens to them, until `stop` is dropped.
pub(crate) fn start(database: &Arc<Database>, wakes: &Wakes, stop: watch::Receiver<()>) {
    if database.options.transaction_pooling {
        return;
    }
    let channel: Arc<str> = channel(&SchemaName::new(&database.options.schema)).into();
    tokio::spawn(until(stop.clone(), tell(database.clone(), wakes.clone(), channel.clone())));
    tokio::spawn(until(stop, listen(database.listener_pool(), wakes.clone(), channel)));
}

async fn until(mut stop: watch::Receiver<()>, work: impl Future<Output = ()>) {
    tokio::select! { _ = stop.changed() => (), () = work => () }
}

/// Names of channels are limited to 63 bytes, as names of schemas are.
fn channel(schema: &SchemaName) -> String {
    let name = format!("bezoar_{}", schema.as_str());
    name[..name.floor_char_boundary(63)].to_owned()
}

async fn tell(database: Arc<Database>, wakes: Wakes, channel: Arc<str>) {
    loop {
        wakes.0.tell.notified().await;
        let queues: Vec<i32> = std::mem::take(&mut *lock(&wakes.0.untold)).into_iter().collect();
        let channel = channel.clone();
        let told = database.run("notify", Scope::Read, move |database, connection| {
            let (channel, queues) = (channel.to_string(), queues.clone());
            let query = database.query(&database.sql.notify).bind(channel).bind(queues);
            Box::pin(async move { query.execute(connection).await })
        });
        // Only a hint: who missed it polls.
        let _ = told.await;
        sleep(PAUSE).await;
    }
}

async fn listen(pool: PgPool, wakes: Wakes, channel: Arc<str>) {
    loop {
        if let Ok(mut listener) = PgListener::connect_with(&pool).await
            && listener.listen(&channel).await.is_ok()
        {
            receive(&mut listener, &wakes).await;
        }
        sleep(RECONNECT).await;
    }
}

/// Passes notifications on until the connection cannot be restored.
async fn receive(listener: &mut PgListener, wakes: &Wakes) {
    loop {
        match listener.try_recv().await {
            Ok(Some(told)) => match told.payload().parse() {
                Ok(number) => wakes.wake_here(number),
                Err(_) => wakes.wake_all_here(),
            },
            // The connection was lost for a while, and notifications with it.
            Ok(None) => wakes.wake_all_here(),
            Err(_) => return,
        }
    }
}

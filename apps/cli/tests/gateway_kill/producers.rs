//! Many clients that send, each until its gateway is gone.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use http::{Method, StatusCode};
use tokio::{sync::watch, task::JoinSet};

use crate::{message::body, support::client::Client};

/// How many send at a time.
const PRODUCERS: usize = 64;

/// What was sent, and what was promised. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    pub(crate) asked: Arc<Mutex<HashSet<String>>>,
    pub(crate) accepted: Arc<Mutex<HashSet<String>>>,
    /// How many were promised.
    pub(crate) progress: watch::Sender<usize>,
}

impl Promises {
    /// Sends until the gateway is gone; ends when all have noticed.
    pub(crate) fn produce(&self, client: &Client, cycle: u32) -> JoinSet<()> {
        let one = |number| self.clone().send(client.clone(), format!("{cycle}-{number}"));
        JoinSet::from_iter((0..PRODUCERS).map(one))
    }

    async fn send(self, client: Client, name: String) {
        for number in 0.. {
            let id = format!("{name}-{number}");
            self.asked.lock().unwrap().insert(id.clone());
            let headers = [("bezoar-id", id.as_str())];
            let sent =
                client.try_call(Method::POST, "/v1/queues/lab/messages", &headers, body(&id));
            // No answer: it may be there or not.
            let Some(reply) = sent.await else { return };
            assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
            self.accepted.lock().unwrap().insert(id);
            self.progress.send_modify(|count| *count += 1);
        }
    }
}

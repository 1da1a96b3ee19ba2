//! How many connections there are, and who makes room for others.
//!
//! A new connection is always accepted. If there are too many that have not shown a valid token, the oldest of them is
//! closed. So whoever has a token, or asks for `/healthz`, gets in at once, however many others hold connections open
//! and ask for nothing. A connection that has shown a token moves to a share of its own, from which nobody is closed;
//! once that share is used up, further ones stay among the others.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    /// How many without a token there may be.
    others_limit: usize,
    others: Mutex<Others>,
    with_token: Arc<Semaphore>,
}

/// The connections that have not shown a token, oldest first.
#[derive(Debug, Default)]
struct Others {
    next: u64,
    open: BTreeMap<u64, Arc<Notify>>,
}

/// A connection: where it comes from, and its place among the others until it is closed.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    number: u64,
    closing: Arc<Notify>,
    share: Mutex<Option<OwnedSemaphorePermit>>,
    connections: Arc<Connections>,
}

impl Connections {
    /// Half of `limit` is for those with a token.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let with_token = Arc::new(Semaphore::new(limit / 2));
        Arc::new(Self { others_limit: (limit / 2).max(1), others: Mutex::default(), with_token })
    }

    /// Adds a connection, and closes another if there are too many.
    pub(super) fn add(self: &Arc<Self>, address: IpAddr) -> Arc<Peer> {
        let mut others = self.others();
        if others.open.len() >= self.others_limit {
            others.close_oldest();
        }
        let (number, closing) = (others.next, Arc::new(Notify::new()));
        others.next += 1;
        others.open.insert(number, closing.clone());
        let connections = self.clone();
        Arc::new(Peer { address, number, closing, share: Mutex::default(), connections })
    }

    /// Closes the oldest connection without a token, to free what it uses.
    pub(super) fn close_oldest(&self) {
        self.others().close_oldest();
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Others {
    fn close_oldest(&mut self) {
        if let Some((_, oldest)) = self.open.pop_first() {
            oldest.notify_one();
        }
    }
}

impl Peer {
    /// The connection has shown a valid token, and stays.
    pub(crate) fn has_token(&self) {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if share.is_none() {
            *share = self.connections.with_token.clone().try_acquire_owned().ok();
            if share.is_some() {
                self.connections.others().open.remove(&self.number);
            }
        }
    }

    /// Waits until it has to make room.
    pub(super) async fn closing(&self) {
        self.closing.notified().await;
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.connections.others().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn is_closed(peer: &Peer) -> bool {
        peer.closing().now_or_never().is_some()
    }

    fn open(connections: &Arc<Connections>) -> Arc<Peer> {
        connections.add(Ipv4Addr::LOCALHOST.into())
    }

    #[test]
    fn the_oldest_without_a_token_makes_room() {
        let connections = Connections::new(4);
        let (first, second, third) = (open(&connections), open(&connections), open(&connections));
        assert!(is_closed(&first) && !is_closed(&second) && !is_closed(&third));
        drop(second);
        let fourth = open(&connections);
        assert!(!is_closed(&third) && !is_closed(&fourth), "one had left by itself");
    }

    #[test]
    fn those_with_a_token_stay_as_long_as_their_share_lasts() {
        let connections = Connections::new(4);
        let known = [(); 3].map(|()| {
            let peer = open(&connections);
            peer.has_token();
            peer
        });
        let others: Vec<_> = (0..3).map(|_| open(&connections)).collect();
        assert!(!is_closed(&known[0]) && !is_closed(&known[1]));
        assert!(is_closed(&known[2]), "their share is two");
        assert!(is_closed(&others[0]) && !is_closed(&others[2]));
        drop(known);
        let later = open(&connections);
        later.has_token();
        let _more: Vec<_> = (0..3).map(|_| open(&connections)).collect();
        assert!(!is_closed(&later), "their share is free again");
    }
}

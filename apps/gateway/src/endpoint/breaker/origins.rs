//! What routes to the same scheme, host and port share: whether a connection can be made. Everything else belongs to
//! each route alone.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bezoar::{Code, blame::BlameOptions};

use super::{BreakerShared, RouteBreaker, chance, now};

/// Creates breakers, and connects those of the same origin.
#[derive(Debug, Default)]
pub struct Origins(Mutex<HashMap<String, Weak<SharedOrigin>>>);

impl Origins {
    /// A breaker for a route to `origin`: scheme, host and port.
    pub fn breaker(&self, route: &str, origin: &str, options: BlameOptions) -> RouteBreaker {
        let mut origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        origins.retain(|_, known| known.strong_count() > 0);
        let known = origins.get(origin).and_then(Weak::upgrade);
        let shared = known.unwrap_or_default();
        origins.insert(origin.to_owned(), Arc::downgrade(&shared));
        RouteBreaker::at(route, options, shared)
    }
}

/// The breakers of routes to one origin.
#[derive(Default)]
pub(super) struct SharedOrigin {
    /// Whether the last call could not be sent; avoids locking the list while all is well.
    unreachable: AtomicBool,
    routes: Mutex<Vec<Weak<BreakerShared>>>,
}

impl SharedOrigin {
    pub(super) fn join(&self, route: &Arc<BreakerShared>) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.retain(|known| known.strong_count() > 0);
        routes.push(Arc::downgrade(route));
    }

    /// A call of `route` could not be sent.
    pub(super) fn unsent(&self, route: &Arc<BreakerShared>, call: (u64, Instant), code: &Code) {
        self.unreachable.store(true, Ordering::Release);
        for other in self.others(route) {
            other.change(|blame| blame.unsent_elsewhere(call, code, now(), chance()));
        }
    }

    /// A call of `route` was sent.
    pub(super) fn reached(&self, route: &Arc<BreakerShared>) {
        if !self.unreachable.swap(false, Ordering::AcqRel) {
            return;
        }
        for other in self.others(route) {
            other.change(|blame| blame.reachable(now()));
        }
    }

    fn others(&self, route: &Arc<BreakerShared>) -> Vec<Arc<BreakerShared>> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = routes.iter().filter_map(Weak::upgrade);
        alive.filter(|other| !Arc::ptr_eq(other, route)).collect()
    }
}

impl fmt::Debug for SharedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedOrigin")
            .field("unreachable", &self.unreachable)
            .finish_non_exhaustive()
    }
}

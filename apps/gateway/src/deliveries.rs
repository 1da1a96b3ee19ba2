//! The deliveries in progress: what a stop waits for.

use std::sync::Arc;

use crate::route::Route;

/// The deliveries of all routes, for as long as a gateway stops.
#[derive(Debug)]
pub struct Deliveries(pub(crate) Vec<Arc<Route>>);

impl Deliveries {
    /// The routes that are delivering, and how many messages each.
    pub fn in_progress(&self) -> Vec<(String, u64)> {
        let counts = self.0.iter().map(|route| (route.name().to_owned(), route.in_flight()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

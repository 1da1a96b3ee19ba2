//! Whether expired messages leave the delay queues (pure).

use bezoar_core::{Finding, Severity};
use serde_json::Value;

use crate::check::findings::finding;

/// How many expired messages of a queue the broker moves at once. When none of them is accepted, it tries again after
/// minutes, and those behind them wait.
const MOVED_AT_ONCE: u64 = 32;

/// A warning for each delay queue with more expired messages than the broker moves at once. Under heavy load that is
/// possible for a moment.
pub(crate) fn overdue(queues: &[Value]) -> Vec<Finding> {
    let expired = |queue: &Value| queue["messages_dlx"].as_u64().unwrap_or(0);
    let stuck = queues.iter().filter(|queue| expired(queue) > MOVED_AT_ONCE);
    let warn = |queue: &Value| {
        let (name, count) = (queue["name"].as_str().unwrap_or_default(), expired(queue));
        let problem = format!(
            "{count} messages of delay queue {name:?} have expired and were not moved on; retries of other queues \
             wait behind them"
        );
        let remedy = "if this persists, find the work queue that is full or has lost its leader, and set \
                      dead_letter_worker_publisher_confirm_timeout as the guide recommends";
        finding(Severity::Warning, problem, remedy)
    };
    stuck.map(warn).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delay_queue_that_does_not_move_is_named() {
        let queues = [
            json!({ "name": "bezoar.delay.0.4", "messages_dlx": 1314 }),
            json!({ "name": "bezoar.delay.0.5", "messages_dlx": 32 }),
            json!({ "name": "bezoar.delay.0.6" }),
        ];
        let found = overdue(&queues);
        assert_eq!(found.len(), 1, "{found:?}");
        let starts = "1314 messages of delay queue \"bezoar.delay.0.4\" have expired";
        assert!(found[0].problem.starts_with(starts), "{found:?}");
    }
}

//! Recounts every stored counter from the rows.

use super::ward::Ward;

/// Each query counts the rows that violate the rule.
const RULES: [(&str, &str); 11] = [
    (
        "each message is in exactly one place",
        "SELECT count(*) FROM bezoar_messages AS m WHERE 1 <>
           (SELECT count(*) FROM bezoar_waiting AS w WHERE w.seq = m.seq)
         + (SELECT count(*) FROM bezoar_dead AS d WHERE d.seq = m.seq)",
    ),
    (
        "no place is without its message",
        "SELECT count(*) FROM (SELECT seq FROM bezoar_waiting UNION ALL SELECT seq FROM bezoar_dead)
         WHERE seq NOT IN (SELECT seq FROM bezoar_messages)",
    ),
    (
        "no try is without its message",
        "SELECT count(*) FROM bezoar_attempts WHERE seq NOT IN (SELECT seq FROM bezoar_messages)",
    ),
    (
        "queues count their waiting messages and dead letters",
        "SELECT count(*) FROM bezoar_queues AS q
         WHERE waiting <> (SELECT count(*) FROM bezoar_waiting WHERE queue = q.id)
            OR dead <> (SELECT count(*) FROM bezoar_dead WHERE queue = q.id)",
    ),
    (
        "causes count their dead letters",
        "SELECT count(*) FROM bezoar_causes AS c
         WHERE count <> (SELECT count(*) FROM bezoar_dead WHERE cause = c.number) OR ever < count
            OR attempts < (SELECT coalesce(max(failed), 0) FROM bezoar_dead WHERE cause = c.number)",
    ),
    (
        "a dead letter is in the queue of its cause",
        "SELECT count(*) FROM bezoar_dead AS d LEFT JOIN bezoar_causes AS c ON c.number = d.cause
         WHERE c.number IS NULL OR c.queue <> d.queue",
    ),
    (
        "operations count their items",
        "SELECT count(*) FROM bezoar_operations AS o WHERE state <> 'void' AND (
            total <> (SELECT count(*) FROM bezoar_items WHERE operation = o.id)
         OR done <> (SELECT count(*) FROM bezoar_items WHERE operation = o.id AND state <> 'waiting')
         OR completed <> (SELECT count(*) FROM bezoar_items WHERE operation = o.id AND state = 'completed')
         OR failed <> (SELECT count(*) FROM bezoar_items WHERE operation = o.id AND state = 'failed again')
         OR total <> (SELECT coalesce(sum(count), 0) FROM bezoar_operation_queues WHERE operation = o.id))",
    ),
    (
        "a message in flight waits in its queue, once",
        "SELECT count(*) FROM bezoar_items AS i WHERE state = 'in flight' AND 1 <>
           (SELECT count(*) FROM bezoar_waiting AS w WHERE w.seq = i.seq AND w.queue = i.queue)",
    ),
    (
        "a waiting item is a dead letter that the operation holds",
        "SELECT count(*) FROM bezoar_items AS i JOIN bezoar_operations AS o ON o.id = i.operation
         WHERE i.state = 'waiting' AND o.state NOT IN ('cancelled', 'ended', 'void') AND NOT EXISTS
           (SELECT 1 FROM bezoar_dead AS d WHERE d.id = i.dead AND d.operation = o.id)",
    ),
    (
        "no message is in two operations that have not ended",
        "SELECT count(*) FROM (SELECT i.seq FROM bezoar_items AS i
            JOIN bezoar_operations AS o ON o.id = i.operation
            WHERE i.state = 'in flight' OR (i.state = 'waiting' AND o.state NOT IN ('cancelled', 'ended', 'void'))
            GROUP BY i.seq HAVING count(*) > 1)",
    ),
    (
        "an operation has ended exactly when every outcome is known",
        "SELECT count(*) FROM bezoar_operations WHERE state NOT IN ('cancelled', 'void') AND (state = 'ended') <>
           (state <> 'planned' AND done = total AND (task = 'discard' OR completed + failed = done)
            AND (total > 0 OR state = 'ended'))",
    ),
];

/// Returns the rules that are violated.
pub(crate) fn broken(ward: &Ward) -> Vec<&'static str> {
    RULES.iter().filter(|(_, query)| ward.one(query) != 0).map(|(rule, _)| *rule).collect()
}

#[track_caller]
pub(crate) fn check(ward: &Ward) {
    assert_eq!(broken(ward), [""; 0]);
}

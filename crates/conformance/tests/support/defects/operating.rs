//! Wrong information for operators.

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterAccess, DeadLetterIds, DeadLetterPage, Depth, ErrorKind, Finding,
    QueueAdmin, QueueName, Severity, TransportError, millis,
};

use super::{Control, Defect, Store, Twist};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "shows every queue as empty",
            || {
                depth(|depth| {
                    let zero = Some(0);
                    *depth = Depth::default();
                    (depth.ready, depth.delayed, depth.leased, depth.dead) =
                        (zero, zero, zero, zero);
                })
            },
            &[
                "admin::depth_follows_a_message_through_its_life",
                "delays::an_endless_retry_is_kept",
            ],
        ),
        Control::new(
            "does not know its depth",
            || depth(|depth| *depth = Depth::default()),
            &[
                "admin::depth_follows_a_message_through_its_life",
                "admin::the_oldest_ready_message_tells_its_age",
                "admin::the_age_of_a_returned_message_begins_with_its_return",
                "admin::the_oldest_dead_letter_tells_its_age",
            ],
        ),
        Control::new(
            "counts leased messages as ready",
            || {
                depth(|depth| {
                    depth.ready =
                        depth.ready.zip(depth.leased).map(|(ready, leased)| ready + leased);
                })
            },
            &["admin::depth_follows_a_message_through_its_life"],
        ),
        Control::new(
            "shows a made-up age",
            || depth(|depth| depth.oldest_ready = depth.oldest_ready.map(|_| millis(0))),
            &[
                "admin::the_oldest_ready_message_tells_its_age",
                "admin::the_age_of_a_returned_message_begins_with_its_return",
            ],
        ),
        Control::new(
            "lists queues backwards",
            || Twist { queues: Box::new(|queues| queues.reverse()), ..Twist::default() },
            &["admin::queues_are_listed_by_name"],
        ),
        Control::new(
            "lists no queues",
            || Twist { queues: Box::new(Vec::clear), ..Twist::default() },
            &["admin::queues_are_listed_by_name", "restart::empty_queues_survive"],
        ),
        Control::new(
            "empties a queue when it is provisioned again",
            || Operates(Operation::ProvisionsAnew),
            &["admin::provisioning_again_keeps_everything"],
        ),
        Control::new(
            "finds something wrong with every queue",
            || Operates(Operation::AlwaysFinds),
            &["admin::a_sound_queue_has_no_findings"],
        ),
        Control::new(
            "finds nothing wrong with a missing queue",
            || Operates(Operation::NeverFinds),
            &["admin::a_missing_queue_is_found_and_not_made"],
        ),
        Control::new(
            "creates the queue that it validates",
            || Operates(Operation::MakesWhatItValidates),
            &["admin::a_missing_queue_is_found_and_not_made"],
        ),
        Control::new(
            "creates the queue that it opens",
            || Operates(Operation::MakesWhatItOpens),
            &["admin::opening_an_unknown_queue_is_refused"],
        ),
        Control::new(
            "shows an unknown queue as empty",
            || Operates(Operation::ShowsTheUnknownAsEmpty),
            &[
                "admin::the_depth_of_an_unknown_queue_is_refused",
                "dead_letters::access_to_an_unknown_queue_is_refused",
            ],
        ),
        Control::new(
            "declares access to dead letters that it does not offer",
            || Operates(Operation::OffersNoAccess),
            &["admin::dead_letters_are_offered_as_declared"],
        ),
        Control::new(
            "offers a feed of dead letters that it does not declare",
            || Twist {
                capabilities: Box::new(|it| it.dead_letter_feed = false),
                ..Twist::default()
            },
            &["admin::dead_letters_are_offered_as_declared"],
        ),
        Control::new(
            "forgets everything when it restarts",
            || Operates(Operation::Forgets),
            &[
                "restart::ready_messages_survive",
                "restart::delayed_messages_survive",
                "restart::leases_survive",
                "restart::a_settlement_before_the_restart_stands",
                "restart::a_receipt_from_before_the_restart_is_stale_once_taken_over",
                "restart::ledgers_survive",
                "restart::dead_letters_survive",
                "restart::ids_of_dead_letters_are_not_given_again",
                "restart::empty_queues_survive",
            ],
        ),
    ]
}

fn depth(change: fn(&mut Depth)) -> Twist {
    Twist { depth: Box::new(change), ..Twist::default() }
}

#[derive(Debug)]
struct Operates(Operation);

#[derive(Debug, PartialEq)]
enum Operation {
    ProvisionsAnew,
    AlwaysFinds,
    NeverFinds,
    MakesWhatItValidates,
    MakesWhatItOpens,
    ShowsTheUnknownAsEmpty,
    Forgets,
    OffersNoAccess,
}

#[async_trait]
impl Defect for Operates {
    fn forgets(&self) -> bool {
        self.0 == Operation::Forgets
    }

    fn offers_access(&self) -> bool {
        self.0 != Operation::OffersNoAccess
    }

    async fn opening(&self, store: &Store, queue: &QueueName) {
        if self.0 == Operation::MakesWhatItOpens {
            store.memory.provision(queue).await.unwrap();
        }
    }

    async fn provision(&self, store: &Store, queue: &QueueName) -> Result<(), TransportError> {
        store.memory.provision(queue).await?;
        if self.0 == Operation::ProvisionsAnew {
            store.memory.discard(queue, &DeadLetterIds::All).await?;
        }
        Ok(())
    }

    async fn validate(
        &self,
        store: &Store,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        match self.0 {
            Operation::NeverFinds => Ok(Vec::new()),
            Operation::AlwaysFinds => Ok(vec![Finding::new(Severity::Error, "odd", "none")]),
            Operation::MakesWhatItValidates => {
                let findings = store.memory.validate(queue).await;
                store.memory.provision(queue).await?;
                findings
            }
            _ => store.memory.validate(queue).await,
        }
    }

    async fn depth(&self, store: &Store, queue: &QueueName) -> Result<Depth, TransportError> {
        self.unless_unknown(store.memory.depth(queue).await)
    }

    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        self.unless_unknown(store.memory.dead_letters(queue, page).await)
    }
}

impl Operates {
    fn unless_unknown<T: Default>(
        &self,
        result: Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        match result {
            Err(TransportError { kind: ErrorKind::QueueNotFound(_), .. })
                if self.0 == Operation::ShowsTheUnknownAsEmpty =>
            {
                Ok(T::default())
            }
            result => result,
        }
    }
}

//! What happens to a message before and after its delivery.

/// What happens to a message that was taken from a poison queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeDelivery {
    /// It is delivered once more.
    Deliver,
    /// It has used up its retries, and becomes a dead letter without another delivery.
    DeadLetter,
}

/// A message is delivered while its retry count is below the maximum.
pub const fn before_delivery(retry_count: u32, max_attempts: u32) -> BeforeDelivery {
    if retry_count < max_attempts { BeforeDelivery::Deliver } else { BeforeDelivery::DeadLetter }
}

/// How an endpoint answered a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointAnswer {
    /// It took the message: with a success status, and an HL7 acknowledgement `AA` or `CA` where one is expected.
    Accepted,
    /// It did not: any other status, an acknowledgement `AE` or `CE`, or none where one is expected.
    Refused,
    /// It never will: an HL7 acknowledgement `AR` or `CR`.
    Rejected,
    /// There was no complete answer: no connection, a timeout, a reply that was cut off.
    Missing,
}

/// What becomes of a message after its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It was delivered, and is deleted from the poison queue.
    Delete,
    /// It was not delivered, and its retry count goes up by one.
    Retry,
    /// It will never be accepted, and becomes a dead letter at once.
    DeadLetter,
}

/// What becomes of a message after this answer. Only a rejection by an HL7 acknowledgement is permanent.
pub const fn outcome(answer: EndpointAnswer) -> DeliveryOutcome {
    match answer {
        EndpointAnswer::Accepted => DeliveryOutcome::Delete,
        EndpointAnswer::Refused | EndpointAnswer::Missing => DeliveryOutcome::Retry,
        EndpointAnswer::Rejected => DeliveryOutcome::DeadLetter,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_delivered_while_its_count_is_below_the_maximum() {
        let delivered = |most| (0..6).filter(|count| is_delivered(*count, most)).count();
        assert_eq!([0, 1, 3, 5].map(delivered), [0, 1, 3, 5]);
        assert!(!is_delivered(u32::MAX, u32::MAX));
        assert!(!is_delivered(4, 3), "a count above the maximum has reached it");
    }

    fn is_delivered(count: u32, most: u32) -> bool {
        before_delivery(count, most) == BeforeDelivery::Deliver
    }

    #[test]
    fn only_success_deletes_and_only_a_rejection_is_permanent() {
        for (answer, expected) in [
            (EndpointAnswer::Accepted, DeliveryOutcome::Delete),
            (EndpointAnswer::Refused, DeliveryOutcome::Retry),
            (EndpointAnswer::Missing, DeliveryOutcome::Retry),
            (EndpointAnswer::Rejected, DeliveryOutcome::DeadLetter),
        ] {
            assert_eq!(outcome(answer), expected, "{answer:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_that_is_never_accepted_is_delivered_exactly_as_often_as_allowed(most in 0..50_u32) {
            let (mut count, mut deliveries) = (0, 0);
            while before_delivery(count, most) == BeforeDelivery::Deliver {
                deliveries += 1;
                count += 1;
            }
            prop_assert_eq!(deliveries, most);
        }
    }
}

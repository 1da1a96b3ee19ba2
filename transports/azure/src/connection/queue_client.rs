//! The requests on one queue.

use std::{fmt, time::Duration};

use azure_core::http::{RequestContent, headers::HeaderName};
use azure_storage_queue::{
    QueueClient,
    models::{
        QueueClientGetPropertiesResultHeaders, QueueClientPeekMessagesOptions,
        QueueClientReceiveMessagesOptions, QueueClientSendMessageOptions,
        QueueClientUpdateMessageOptions, ReceivedMessage,
    },
};
use bezoar_core::{QueueName, millis};
use jiff::Timestamp;

use crate::{
    connection::{service::Requests, xml},
    error::{Fault, FaultKind, LONGEST_DELAY},
};

/// How many messages one request can lease or peek at.
pub(crate) const MOST_PER_FETCH: u32 = 32;
/// The time to live of a message that never expires. Without it Azure deletes a message after 7 days.
const FOR_EVER: i32 = -1;
const POP_RECEIPT: HeaderName = HeaderName::from_static("x-ms-popreceipt");

pub(crate) struct Queue {
    pub(crate) name: QueueName,
    client: QueueClient,
    requests: Requests,
}

/// What the next update or deletion of a message must present. It is as good as a key, so `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct PopReceipt(String);

impl From<&str> for PopReceipt {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for PopReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PopReceipt(..)")
    }
}

/// A message as Azure hands it out. `Debug` is not derived, because the text is a payload.
#[derive(Clone)]
pub(crate) struct Fetched {
    /// Azure's own id, which the message keeps until it is deleted.
    pub(crate) id: String,
    /// The pop receipt. Each update changes it.
    pub(crate) pop_receipt: PopReceipt,
    pub(crate) text: String,
    /// How often it was handed out, including this time.
    pub(crate) dequeue_count: u32,
    pub(crate) inserted_at: Timestamp,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetched({}, {} bytes)", self.id, self.text.len())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.name)
    }
}

impl Queue {
    pub(crate) fn new(name: QueueName, client: QueueClient, requests: Requests) -> Self {
        Self { name, client, requests }
    }

    /// Stores a text, which becomes visible after `delay`.
    pub(crate) async fn put(
        &self,
        text: &str,
        delay: Duration,
        time_to_live: Option<Duration>,
    ) -> Result<(), Fault> {
        let options = QueueClientSendMessageOptions {
            message_time_to_live: Some(time_to_live.map_or(FOR_EVER, whole_seconds)),
            // Without it the message is visible at once.
            visibility_timeout: (!delay.is_zero()).then(|| whole_seconds(delay)),
            ..QueueClientSendMessageOptions::default()
        };
        let content = RequestContent::from(xml::message(text));
        self.requests.run(self.client.send_message(content, Some(options))).await.map(drop)
    }

    /// Leases up to `max` messages.
    pub(crate) async fn lease(&self, max: u32, lease: Duration) -> Result<Vec<Fetched>, Fault> {
        let options = QueueClientReceiveMessagesOptions {
            number_of_messages: i32::try_from(max.min(MOST_PER_FETCH)).ok(),
            visibility_timeout: Some(whole_seconds(lease)),
            ..QueueClientReceiveMessagesOptions::default()
        };
        let request = async { self.client.receive_messages(Some(options)).await?.into_model() };
        let messages = self.requests.run(request).await?.items.unwrap_or_default();
        Ok(messages.into_iter().filter_map(fetched).collect())
    }

    /// How many messages are visible, up to [`MOST_PER_FETCH`].
    pub(crate) async fn visible(&self) -> Result<u32, Fault> {
        let options = QueueClientPeekMessagesOptions {
            number_of_messages: i32::try_from(MOST_PER_FETCH).ok(),
            ..QueueClientPeekMessagesOptions::default()
        };
        let request = async { self.client.peek_messages(Some(options)).await?.into_model() };
        let messages = self.requests.run(request).await?.items.unwrap_or_default();
        Ok(u32::try_from(messages.len()).unwrap_or(MOST_PER_FETCH))
    }

    /// Makes the message visible after `after`, with another text if there is one. Returns its new pop receipt.
    pub(crate) async fn update(
        &self,
        id: &str,
        pop_receipt: &PopReceipt,
        text: Option<&str>,
        after: Duration,
    ) -> Result<PopReceipt, Fault> {
        let options = QueueClientUpdateMessageOptions {
            queue_message: text.map(|text| RequestContent::from(xml::message(text))),
            ..QueueClientUpdateMessageOptions::default()
        };
        let seconds = whole_seconds(after);
        let request = self.client.update_message(id, &pop_receipt.0, seconds, Some(options));
        let answer = self.requests.run(request).await?;
        let receipt = answer.headers().get_optional_str(&POP_RECEIPT);
        let missing = || Fault::new(FaultKind::NoAnswer, "the answer has no pop receipt");
        receipt.map(PopReceipt::from).ok_or_else(missing)
    }

    pub(crate) async fn delete(&self, id: &str, pop_receipt: &PopReceipt) -> Result<(), Fault> {
        self.requests.run(self.client.delete_message(id, &pop_receipt.0, None)).await.map(drop)
    }

    /// Creates the queue unless it exists.
    pub(crate) async fn create(&self) -> Result<(), Fault> {
        match self.requests.run(self.client.create(None)).await {
            Err(fault) if fault.kind != FaultKind::AlreadyExists => Err(fault),
            _ => Ok(()),
        }
    }

    /// How many messages the queue has in any state. Azure calls it approximate: it is never too low.
    pub(crate) async fn count(&self) -> Result<u64, Fault> {
        let request =
            async { self.client.get_properties(None).await?.approximate_messages_count() };
        let count = self.requests.run(request).await?;
        let missing = || Fault::new(FaultKind::Other, "the answer has no count of messages");
        count.and_then(|count| u64::try_from(count).ok()).ok_or_else(missing)
    }
}

/// Whole seconds, rounded up, so that no message is visible too early.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn fetched(message: ReceivedMessage) -> Option<Fetched> {
    Some(Fetched {
        id: message.message_id?,
        pop_receipt: PopReceipt(message.pop_receipt?),
        text: message.message_text.unwrap_or_default(),
        dequeue_count: u32::try_from(message.dequeue_count.unwrap_or(1)).unwrap_or(u32::MAX).max(1),
        inserted_at: millis(message.insertion_time.map_or(0, |it| it.unix_timestamp() * 1_000)),
    })
}

/// The delay that Azure accepts for a settlement: a longer one is cut.
pub(crate) fn within_limit(after: Duration) -> Duration {
    after.min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_second_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
        assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
    }

    #[test]
    fn debug_shows_no_pop_receipt() {
        assert_eq!(format!("{:?}", PopReceipt::from("CANARY")), "PopReceipt(..)");
    }
}

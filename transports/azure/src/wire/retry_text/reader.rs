//! Reads a text as a message: opens records and wrappers, and finds the count and the correlation id.

use bezoar_core::{CorrelationId, Message, MessageId, poison_retry::RetryFields};
use serde_json::value::{RawValue, Value};

use super::{
    LEDGER,
    object::{is_broken_object, is_record, member, object, text_of},
};
use crate::{
    ForeignText,
    connection::queue_client::Fetched,
    wire::{
        envelope, ledger,
        poison_record::{self, Unwrapped},
        stored_text::{self, Content, Members},
    },
};

/// Reads one fetched text.
pub(super) struct Reader<'a> {
    pub(super) fetched: &'a Fetched,
    pub(super) foreign: ForeignText,
    pub(super) fields: &'a RetryFields,
}

/// A text, or the text in a record or wrapper.
pub(super) struct Layer {
    /// `None` if the text has no count.
    pub(super) retry_count: Option<u32>,
    pub(super) message: Message,
    pub(super) original: Option<(String, String)>,
}

/// The text cannot be decoded.
pub(super) struct Undecodable;

impl Reader<'_> {
    /// The correlation id of a text that cannot be decoded as a whole.
    pub(super) fn correlation_id(&self) -> Option<CorrelationId> {
        let (object, _) = object(&self.fetched.text, self.foreign)?;
        let members: Members<'_> = serde_json::from_str(&object).ok()?;
        CorrelationId::new(text_of(&members, &self.fields.correlation_id)?).ok()
    }

    pub(super) fn layer(&self, id: &str, text: &str, layers: u32) -> Result<Layer, Undecodable> {
        let Some((object, _)) = object(text, self.foreign) else {
            return self.plain(id, text);
        };
        let members: Members<'_> = serde_json::from_str(&object).map_err(|_| Undecodable)?;
        let retry_count = count(&members, &self.fields.retry_count)?;
        let mut layer = if is_record(&members) {
            self.record(&object, layers)?
        } else if let Some(marker) = member(&members, "bezoar") {
            self.ours(id, &object, marker, &members, layers)?
        } else {
            self.foreign_object(id, text, &members)?
        };
        layer.retry_count = retry_count.or(layer.retry_count);
        if let Some(id) = text_of(&members, &self.fields.correlation_id) {
            layer.message.correlation_id =
                layer.message.correlation_id.or(CorrelationId::new(id).ok());
        }
        if let Some(written) = member(&members, LEDGER).filter(|_| is_record(&members)) {
            layer.message.ledger = ledger::read(written.get());
        }
        Ok(layer)
    }

    /// A text that is no object.
    fn plain(&self, id: &str, text: &str) -> Result<Layer, Undecodable> {
        if is_broken_object(text, self.foreign) || self.fields.body.is_some() {
            return Err(Undecodable);
        }
        Ok(Layer { retry_count: None, message: self.message(id, text)?, original: None })
    }

    fn record(&self, object: &str, layers: u32) -> Result<Layer, Undecodable> {
        let Unwrapped { message_id, text, ledger } =
            poison_record::unwrap(object).ok_or(Undecodable)?;
        let id = if MessageId::new(&message_id).is_ok() { &message_id } else { &self.fetched.id };
        let mut layer = self.inner(id, &text, layers)?;
        layer.message.ledger = ledger.unwrap_or(layer.message.ledger);
        layer.original = layer.original.or(Some((id.clone(), text)));
        Ok(layer)
    }

    /// An envelope of ours, or a wrapper around the text of another program.
    fn ours(
        &self,
        id: &str,
        object: &str,
        marker: &RawValue,
        members: &Members<'_>,
        layers: u32,
    ) -> Result<Layer, Undecodable> {
        let version: u32 = serde_json::from_str(marker.get()).map_err(|_| Undecodable)?;
        match text_of(members, "text") {
            Some(text) if version <= envelope::VERSION => {
                let mut layer = self.inner(id, &text, layers)?;
                if let Some(written) = member(members, LEDGER) {
                    layer.message.ledger = ledger::read(written.get());
                }
                Ok(layer)
            }
            _ => {
                let message = self.message(id, object)?;
                Ok(Layer { retry_count: None, message, original: None })
            }
        }
    }

    fn foreign_object(
        &self,
        id: &str,
        text: &str,
        members: &Members<'_>,
    ) -> Result<Layer, Undecodable> {
        let mut message = self.message(id, text)?;
        if let Some(field) = &self.fields.body {
            message.body = text_of(members, field).ok_or(Undecodable)?.into();
        }
        Ok(Layer { retry_count: None, message, original: None })
    }

    fn inner(&self, id: &str, text: &str, layers: u32) -> Result<Layer, Undecodable> {
        match layers {
            0 => Err(Undecodable),
            _ => self.layer(id, text, layers - 1),
        }
    }

    fn message(&self, id: &str, text: &str) -> Result<Message, Undecodable> {
        let (id, text) = (id.to_owned(), text.to_owned());
        let fetched = Fetched { id, text, ..self.fetched.clone() };
        match stored_text::read(&fetched, self.foreign) {
            Content::Message(message) => Ok(*message),
            Content::Damaged | Content::Newer(_) => Err(Undecodable),
        }
    }
}

/// The retry count of an object; `None` if it is absent or null. A count that is too large for us is large enough.
fn count(members: &Members<'_>, name: &str) -> Result<Option<u32>, Undecodable> {
    let Some(raw) = member(members, name) else { return Ok(None) };
    match serde_json::from_str(raw.get()).map_err(|_| Undecodable)? {
        Value::Null => Ok(None),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => Ok(Some(u32::try_from(count).unwrap_or(u32::MAX))),
            (None, Some(count)) if count >= 0.0 && count.fract() == 0.0 => {
                Ok(Some(if count > f64::from(u32::MAX) { u32::MAX } else { count as u32 }))
            }
            _ => Err(Undecodable),
        },
        _ => Err(Undecodable),
    }
}

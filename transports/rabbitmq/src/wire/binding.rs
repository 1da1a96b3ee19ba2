//! The binding of our headers to their message.
//!
//! Some programs copy all headers of a message that they handle onto the messages that they send. A new message must not
//! inherit the attempts, the history or the dead-letter number of another. So what we add when we republish a message is
//! bound to it by a digest of its ids and body; where the digest does not match, our headers count as absent. This
//! guards against accidents: anybody can compute the digest.

use lapin::types::{FieldTable, ShortString};
use sha2::{Digest, Sha256};

use super::{
    Raw,
    header_names::{BINDING, ID, is_bound},
    header_table::{Table, string, table_of, text},
    hex,
};

/// Binds the headers to a message with this `message_id` and body. To be called when the id is among the headers.
pub(super) fn write(headers: &mut Table, message_id: Option<&ShortString>, body: &[u8]) {
    let digest = digest(headers, message_id, body);
    headers.insert(BINDING.into(), text(&digest));
}

/// Removes headers of ours that belong to another message.
pub(super) fn remove_unbound(raw: &mut Raw) {
    let Some(headers) = raw.properties.headers().as_ref().map(FieldTable::inner) else { return };
    if !headers.keys().any(|name| is_bound(name.as_str())) {
        return; // the usual case costs no digest
    }
    let actual = digest(headers, raw.properties.message_id().as_ref(), &raw.body);
    if string(headers, BINDING).is_none_or(|claimed| claimed != actual) {
        let mut headers = table_of(&raw.properties);
        headers.retain(|name, _| !is_bound(name.as_str()));
        raw.properties = std::mem::take(&mut raw.properties).with_headers(headers.into());
    }
}

/// The digest of a message: of its ids and body.
pub(crate) fn digest_of(raw: &Raw) -> String {
    let none = Table::new();
    let headers = raw.properties.headers().as_ref().map_or(&none, FieldTable::inner);
    digest(headers, raw.properties.message_id().as_ref(), &raw.body)
}

fn digest(headers: &Table, message_id: Option<&ShortString>, body: &[u8]) -> String {
    let assigned = string(headers, ID).unwrap_or_default();
    let mut hash = Sha256::new();
    for id in [message_id.map_or("", ShortString::as_str), &assigned] {
        hash.update((id.len() as u64).to_be_bytes());
        hash.update(id);
    }
    hash.update(body);
    hex(&hash.finalize().into())
}

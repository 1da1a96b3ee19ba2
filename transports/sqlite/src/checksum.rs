//! A checksum per message, so that damage on disk never reaches a handler.
//!
//! SQLite's pages have no checksums: a flipped bit in a body is read back as if it had been sent. The
//! checksum is stored with the message when it is inserted and compared whenever the message is read.
//! A row without one was stored by an older version and is not compared.
//!
//! It covers everything the sender set. Each field is hashed with its tag and its length, and an
//! absent field is not hashed at all. So a field that is added to the format later changes no stored
//! checksum.

use crc32fast::Hasher;

/// A checksum that no message has. It marks a copy whose original was already damaged.
pub(crate) const NEVER: i64 = -1;

/// The fields that the sender set, as they are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredFields<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) message_type: &'a [u8],
    pub(crate) correlation_id: Option<&'a [u8]>,
    pub(crate) causation_id: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a [u8]>,
    pub(crate) headers: Option<&'a [u8]>,
    pub(crate) time: i64,
    pub(crate) body: &'a [u8],
    pub(crate) expires_at: Option<i64>,
    pub(crate) ordering_key: Option<&'a [u8]>,
}

impl StoredFields<'_> {
    /// The checksum of a message with these fields. The tags are part of the file format.
    pub(crate) fn checksum(&self) -> i64 {
        let time = self.time.to_le_bytes();
        let expires_at = self.expires_at.map(i64::to_le_bytes);
        let fields = [
            (1, Some(self.id)),
            (2, Some(self.message_type)),
            (3, self.correlation_id),
            (4, self.causation_id),
            (5, self.content_type),
            (6, self.headers),
            (7, Some(&time[..])),
            (8, Some(self.body)),
            (9, expires_at.as_ref().map(|bytes| &bytes[..])),
            (10, self.ordering_key),
        ];
        let mut hasher = BufferedHasher::default();
        for (tag, value) in fields {
            if let Some(value) = value {
                let [a, b, c, d, e, f, g, h] = (value.len() as u64).to_le_bytes();
                hasher.update(&[tag, a, b, c, d, e, f, g, h]);
                hasher.update(value);
            }
        }
        hasher.finish().into()
    }
}

/// Hashes short fields together, because each call of [`Hasher::update`] has a cost of its own.
struct BufferedHasher {
    hasher: Hasher,
    buffer: [u8; 256],
    filled: usize,
}

impl Default for BufferedHasher {
    fn default() -> Self {
        Self { hasher: Hasher::new(), buffer: [0; 256], filled: 0 }
    }
}

impl BufferedHasher {
    fn update(&mut self, bytes: &[u8]) {
        match self.buffer[self.filled..].get_mut(..bytes.len()) {
            Some(free) => {
                free.copy_from_slice(bytes);
                self.filled += bytes.len();
            }
            None => {
                self.flush();
                self.hasher.update(bytes);
            }
        }
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer[..self.filled]);
        self.filled = 0;
    }

    fn finish(mut self) -> u32 {
        self.flush();
        self.hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: StoredFields<'_> = StoredFields {
        id: b"m-1",
        message_type: b"lab.result",
        correlation_id: None,
        causation_id: None,
        content_type: Some(b"text/plain"),
        headers: None,
        time: 1_000,
        body: b"hello",
        expires_at: None,
        ordering_key: None,
    };

    /// Users have files with this checksum, so it must never change.
    #[test]
    fn the_checksum_of_a_stored_message_stays_the_same() {
        assert_eq!(FIELDS.checksum(), 4_156_704_318);
    }

    #[test]
    fn every_field_counts_and_so_does_which_field_it_is() {
        let changed = [
            StoredFields { id: b"m-2", ..FIELDS },
            StoredFields { message_type: b"lab.order", ..FIELDS },
            StoredFields { correlation_id: Some(b"c"), ..FIELDS },
            StoredFields { causation_id: Some(b"c"), ..FIELDS },
            StoredFields { content_type: None, ..FIELDS },
            StoredFields { headers: Some(b"{}"), ..FIELDS },
            StoredFields { time: 1_001, ..FIELDS },
            StoredFields { body: b"hellp", ..FIELDS },
            StoredFields { body: b"", ..FIELDS },
            StoredFields { expires_at: Some(1_000), ..FIELDS },
            StoredFields { ordering_key: Some(b"p-7"), ..FIELDS },
        ];
        let mut checksums: Vec<_> = changed.iter().map(StoredFields::checksum).collect();
        checksums.push(FIELDS.checksum());
        checksums.sort_unstable();
        checksums.dedup();
        assert_eq!(checksums.len(), changed.len() + 1);
        assert!(checksums.iter().all(|checksum| *checksum != NEVER));
    }
}

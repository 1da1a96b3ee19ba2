//! Messages that their ids determine, so that bytes can be compared without keeping them.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

/// The largest body.
const BODY_LIMIT_BYTES: usize = 4 * 1024;

/// What an id stands for, whoever asks.
pub(crate) fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Binary, of any length up to the limit, and none at all now and then.
pub(crate) fn body(id: &str) -> Bytes {
    let mut random = StdRng::seed_from_u64(hash(id));
    let mut bytes = vec![0; random.random_range(0..=BODY_LIMIT_BYTES)];
    random.fill_bytes(&mut bytes);
    bytes.into()
}

/// One in twenty is refused whenever it comes.
pub(crate) fn is_poison(id: &str) -> bool {
    hash(("poison", id)).is_multiple_of(20)
}

//! Authentication by token, and authorization by role and queue.

use bezoar::QueueName;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::config::Role;

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The token's name.
    pub(crate) name: String,
    /// What its holder may do.
    pub(crate) role: Role,
    /// The queues it is limited to; `None` means all queues.
    pub(crate) queues: Option<Vec<QueueName>>,
}

impl Identity {
    /// Whether it has `role` for `queue`; `None` is for requests that concern no single queue.
    pub(crate) fn may(&self, role: Role, queue: Option<&QueueName>) -> bool {
        let covered = match (&self.queues, queue) {
            (Some(queues), Some(queue)) => queues.contains(queue),
            _ => true,
        };
        self.role.includes(role) && covered
    }
}

/// The known tokens, hashed and compared in constant time.
#[derive(Debug, Default)]
pub(crate) struct Access(Vec<([u8; 32], Identity)>);

impl Access {
    /// Accepts these tokens.
    pub(crate) fn new(tokens: impl IntoIterator<Item = (SecretString, Identity)>) -> Self {
        let hashed =
            |(secret, identity): (SecretString, _)| (hash(secret.expose_secret()), identity);
        Self(tokens.into_iter().map(hashed).collect())
    }

    /// Looks up a token. It always compares with all of them, so that timing reveals nothing.
    pub(crate) fn identify(&self, token: &str) -> Option<&Identity> {
        let shown = hash(token);
        self.0.iter().fold(
            None,
            |found, (hash, identity)| if same(hash, &shown) { Some(identity) } else { found },
        )
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(role: Role, queues: Option<&[&str]>) -> Identity {
        let names =
            |names: &[&str]| names.iter().map(|name| QueueName::new(name).unwrap()).collect();
        Identity { name: "somebody".to_owned(), role, queues: queues.map(names) }
    }

    #[test]
    fn a_token_identifies_its_holder_and_nothing_else_does() {
        let access = Access::new([("s3cret".to_owned().into(), identity(Role::Viewer, None))]);
        assert!(access.identify("s3cret").is_some());
        for wrong in ["", "s3cre", "s3cret ", "S3CRET"] {
            assert!(access.identify(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_role_covers_those_below_it_within_its_queues() {
        let (lab, ward) = (QueueName::new("lab").unwrap(), QueueName::new("ward").unwrap());
        let operator = identity(Role::Operator, Some(&["lab"]));
        assert!(operator.may(Role::Viewer, Some(&lab)) && operator.may(Role::Operator, Some(&lab)));
        assert!(!operator.may(Role::Admin, Some(&lab)));
        assert!(!operator.may(Role::Viewer, Some(&ward)));
        assert!(operator.may(Role::Viewer, None));
        let sender = identity(Role::Sender, Some(&["lab"]));
        assert!(sender.may(Role::Sender, Some(&lab)) && !sender.may(Role::Sender, Some(&ward)));
        assert!(!sender.may(Role::Viewer, Some(&lab)));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let access = Access::new([("CANARY".to_owned().into(), identity(Role::Admin, None))]);
        assert!(!format!("{access:?}").contains("CANARY"));
    }
}

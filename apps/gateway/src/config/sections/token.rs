//! `[[token]]`: API tokens.

use bezoar::QueueName;

use crate::config::{
    InvalidValue, Name, Secret,
    names::choice,
    reader::{Section, SectionReader},
};

/// An API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    /// Its name, which the audit log records.
    pub name: Name,
    /// What it may do.
    pub role: Role,
    /// The token itself: at least 16 visible ASCII characters.
    pub secret: Secret,
    /// The queues it is limited to.
    pub queues: Option<Vec<QueueName>>,
}

choice! {
    /// What a token may do. An admin may do all that an operator may, and an operator all that a viewer and a sender may.
    Role {
        /// Only send messages.
        Sender = "sender",
        /// See counts and metadata.
        Viewer = "viewer",
        /// Send, replay, and reveal with a reason.
        Operator = "operator",
        /// Everything.
        Admin = "admin",
    }
}

impl Role {
    /// Whether it may do what `other` may.
    pub fn includes(self, other: Self) -> bool {
        match self {
            Self::Sender | Self::Viewer => self == other,
            Self::Operator => other != Self::Admin,
            Self::Admin => true,
        }
    }
}

/// The minimum length of a token.
const SECRET_LEAST_CHARS: usize = 16;

impl TokenConfig {
    pub(in crate::config) fn read(
        reader: &mut SectionReader<'_>,
        section: &Section<'_>,
    ) -> Option<Self> {
        let name = reader.required(section, "name");
        let role = reader.required(section, "role");
        let secret = reader.secret(section, "secret");
        let queues = reader.optional(section, "queues");
        if let Some(invalid) = secret.as_ref().and_then(weakness) {
            reader.refuse(section, "secret", invalid);
        }
        Some(Self { name: name?, role: role?, secret: secret?, queues })
    }
}

fn weakness(secret: &Secret) -> Option<InvalidValue> {
    let text = secret.reveal();
    let remedy = "generate one, for example with `openssl rand -base64 32`";
    if text.chars().count() < SECRET_LEAST_CHARS {
        let problem =
            format!("has fewer than {SECRET_LEAST_CHARS} characters and could be guessed");
        return Some(InvalidValue::new(problem, remedy));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(InvalidValue::new("contains characters other than visible ASCII", remedy));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_tokens_are_rejected() {
        let check = |text: &str| weakness(&Secret::new(text.to_owned()).unwrap());
        assert_eq!(check("0123456789abcdef"), None);
        assert!(check("0123456789abcde").unwrap().problem.contains("fewer than 16"));
        assert!(check("0123456789 abcdef").unwrap().problem.contains("visible ASCII"));
        assert!(check(&"ü".repeat(20)).unwrap().problem.contains("visible ASCII"));
    }

    #[test]
    fn a_role_includes_others() {
        use Role::{Admin, Operator, Sender, Viewer};
        for (role, included) in [
            (Sender, vec![Sender]),
            (Viewer, vec![Viewer]),
            (Operator, vec![Sender, Viewer, Operator]),
            (Admin, vec![Sender, Viewer, Operator, Admin]),
        ] {
            for other in [Sender, Viewer, Operator, Admin] {
                assert_eq!(role.includes(other), included.contains(&other), "{role} {other}");
            }
        }
    }
}

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
    /// What a token may do. Each role includes the ones before it.
    Role {
        /// See counts and metadata.
        Viewer = "viewer",
        /// Send, replay, and reveal with a reason.
        Operator = "operator",
        /// Everything.
        Admin = "admin",
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
    fn roles_are_ordered() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
    }
}

//! `[[token]]`: who may use the API.

use bezoar::QueueName;

use crate::config::{
    InvalidValue, Name, Secret,
    names::choice,
    reader::{Section, SectionReader},
};

/// Who may use the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    /// Its name, which the audit log shows.
    pub name: Name,
    /// What it may do.
    pub role: Role,
    /// The token itself: at least 16 visible ASCII characters.
    pub secret: Secret,
    /// The queues it is limited to.
    pub queues: Option<Vec<QueueName>>,
}

choice! {
    /// What a token may do. A later one may do all that an earlier one may.
    Role {
        /// See counts and metadata.
        Viewer = "viewer",
        /// Send, replay, and reveal with a reason.
        Operator = "operator",
        /// Everything.
        Admin = "admin",
    }
}

/// The shortest token that is hard to guess.
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
    let remedy = "make one, for example with `openssl rand -base64 32`";
    if text.chars().count() < SECRET_LEAST_CHARS {
        let problem = format!("has less than {SECRET_LEAST_CHARS} characters and can be guessed");
        return Some(InvalidValue::new(problem, remedy));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(InvalidValue::new("has other characters than visible ASCII", remedy));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_guessed_or_not_sent_is_refused() {
        let check = |text: &str| weakness(&Secret::new(text.to_owned()).unwrap());
        assert_eq!(check("0123456789abcdef"), None);
        assert!(check("0123456789abcde").unwrap().problem.contains("less than 16"));
        assert!(check("0123456789 abcdef").unwrap().problem.contains("visible ASCII"));
        assert!(check(&"ü".repeat(20)).unwrap().problem.contains("visible ASCII"));
    }

    #[test]
    fn roles_are_ordered_by_what_they_may_do() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
    }
}

//! The URL of a server with user and password, which may also be keys of their own.

use crate::config::{
    Name, Secret,
    reader::{Section, SectionReader, Warn},
    secret_url::SecretUrl,
    tree::Value,
};

/// The keys `user` and `password`, for a URL that has none.
pub(super) fn credentials(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
) -> (Option<Name>, Option<Secret>) {
    let user = reader.optional(section, "user");
    let password = match section.has("password") {
        true => reader.secret(section, "password"),
        false => None,
    };
    (user, password)
}

/// Reads a URL that may contain a user and a password.
pub(super) fn read(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    name: &str,
    schemes: &[&str],
) -> Option<SecretUrl> {
    let node = section.node(name)?;
    let read = |secret: &Secret| SecretUrl::parse(secret.reveal(), schemes);
    let warn = match &node.value {
        Value::Text(text)
            if SecretUrl::parse(text, schemes).is_ok_and(|url| !url.has_password()) =>
        {
            Warn::Never
        }
        _ => Warn::Always,
    };
    let shown = |secret: &Secret| read(secret).map_or_else(|_| "***".to_owned(), |url| url.shown());
    let secret = reader.resolved_as(&section.path.key(name), node, warn, shown)?;
    read(&secret).map_err(|invalid| reader.refuse(section, name, invalid)).ok()
}

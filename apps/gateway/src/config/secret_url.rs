//! URLs that may contain a user and a password: `amqp://user:password@one:5672,two:5672/vhost`.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{InvalidValue, Secret};

/// A URL, split into user, password and the rest. It never appears in an error message.
pub(crate) struct SecretUrl {
    scheme: String,
    /// Both percent-encoded.
    user: Option<String>,
    password: Option<String>,
    /// Hosts, path and query.
    rest: String,
}

impl SecretUrl {
    /// Parses a URL of one of these schemes, without quoting it in the error.
    pub(crate) fn parse(text: &str, schemes: &[&str]) -> Result<Self, InvalidValue> {
        let refused = |problem| {
            let remedy = format!("use {}://USER@HOST:PORT", schemes.join(":// or "));
            InvalidValue::new(problem, remedy)
        };
        let (scheme, after) = text.split_once("://").ok_or_else(|| refused("is not a URL"))?;
        if !schemes.contains(&scheme) {
            return Err(refused("has an unsupported scheme"));
        }
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        let (who, hosts) = match authority.rsplit_once('@') {
            Some((who, hosts)) => (Some(who), hosts),
            None => (None, authority),
        };
        if hosts.is_empty() || hosts.contains(char::is_whitespace) {
            return Err(refused("has no host"));
        }
        if !hosts.split(',').all(has_sound_port) {
            return Err(refused("has an invalid port"));
        }
        let (user, password) = match who.map(|who| who.split_once(':').ok_or(who)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
        };
        Ok(Self {
            scheme: scheme.to_owned(),
            user: user.filter(|user| !user.is_empty()).map(ToOwned::to_owned),
            password: password.map(ToOwned::to_owned),
            rest: format!("{hosts}{path}"),
        })
    }

    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Adds this user and password if it has none.
    pub(crate) fn or(mut self, user: Option<&str>, password: Option<&str>) -> Self {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        self.user = self.user.or(user.map(encoded));
        self.password = self.password.or(password.map(encoded));
        self
    }

    /// Adds the user and password of another URL if it has none.
    pub(crate) fn or_as(mut self, other: &Self) -> Self {
        if self.user.is_none() {
            self.user.clone_from(&other.user);
            self.password = self.password.or(other.password.clone());
        }
        self
    }

    /// The whole URL.
    pub(crate) fn written(&self) -> Secret {
        let Self { scheme, rest, .. } = self;
        let who = match (&self.user, &self.password) {
            (None, None) => String::new(),
            (user, None) => format!("{}@", user.as_deref().unwrap_or_default()),
            (user, Some(password)) => format!("{}:{password}@", user.as_deref().unwrap_or("guest")),
        };
        Secret::new(format!("{scheme}://{who}{rest}")).expect("it was parsed from valid text")
    }

    /// The URL without its password.
    pub(crate) fn shown(&self) -> String {
        let Self { scheme, rest, .. } = self;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        match (&self.user, &self.password) {
            (None, None) => format!("{scheme}://{rest}"),
            (user, None) => format!("{scheme}://{}@{rest}", user.as_deref().unwrap_or_default()),
            (user, Some(_)) => {
                format!("{scheme}://{}:***@{rest}", user.as_deref().unwrap_or_default())
            }
        }
    }
}

/// Without this check, a password without its `@` would be printed as a port.
fn has_sound_port(host: &str) -> bool {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().is_ok(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMQP: &[&str] = &["amqp", "amqps"];

    fn parse(text: &str) -> SecretUrl {
        SecretUrl::parse(text, AMQP).unwrap_or_else(|invalid| panic!("{invalid}"))
    }

    #[test]
    fn a_url_survives_the_round_trip() {
        for text in [
            "amqp://localhost",
            "amqp://u@localhost:5672/%2f",
            "amqps://u:p%40ss@one:5671,two:5671/lab?heartbeat=10",
        ] {
            assert_eq!(parse(text).written().reveal(), text);
        }
    }

    #[test]
    fn missing_credentials_are_added() {
        let url = parse("amqp://localhost/x").or(Some("lab"), Some("p@ss/"));
        assert_eq!(url.written().reveal(), "amqp://lab:p%40ss%2F@localhost/x");
        assert_eq!(url.shown(), "amqp://lab:***@localhost/x");
        let own = parse("amqp://me:CANARY@localhost").or(Some("lab"), Some("other"));
        assert_eq!(own.written().reveal(), "amqp://me:CANARY@localhost");
        assert_eq!(own.shown(), "amqp://me:***@localhost");
        let http = SecretUrl::parse("http://localhost:15672", &["http"]).ok().unwrap();
        assert_eq!(http.or_as(&own).written().reveal(), "http://me:CANARY@localhost:15672");
    }

    #[test]
    fn an_invalid_url_is_not_quoted() {
        for bad in [
            "CANARY",
            "http://CANARY@localhost",
            "amqp://CANARY@",
            "amqp:///x",
            "amqp://a b",
            "amqp://h:CANARY",
        ] {
            let invalid = SecretUrl::parse(bad, AMQP).err().unwrap();
            assert!(!invalid.to_string().contains("CANARY"), "{invalid}");
            assert!(invalid.to_string().contains("amqp:// or amqps://USER@HOST:PORT"), "{invalid}");
        }
    }
}

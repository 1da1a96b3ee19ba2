//! `[network]`: which addresses endpoints may have.

use std::net::IpAddr;

use crate::{
    config::{
        InvalidValue, Kind, ServerConfig,
        invalid_value::quoted,
        reader::{Section, SectionReader},
        tree::Value,
        values::Parsed,
    },
    endpoint::{self, Cidr, Unlisted},
};

/// Which addresses endpoints may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Always allowed, private or not, unless denied.
    pub allow: Vec<Cidr>,
    /// Never allowed.
    pub deny: Vec<Cidr>,
    /// Whether private addresses are allowed.
    pub private: PrivateAddresses,
    /// Whether only what `allow` lists is allowed.
    pub only_listed: bool,
}

/// Whether private addresses are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateAddresses {
    /// Only while the gateway listens on loopback.
    Auto,
    /// Yes.
    Allowed,
    /// No.
    Refused,
}

impl NetworkConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            allow: reader.or_default(section, "allow"),
            deny: reader.or_default(section, "deny"),
            private: reader.or_default(section, "private"),
            only_listed: reader.or_default(section, "only_listed"),
        }
    }

    /// The rule for a gateway that listens as `server` says.
    pub fn rule(&self, server: &ServerConfig) -> endpoint::NetworkRule {
        let private = match self.private {
            PrivateAddresses::Auto => server.is_on_loopback(),
            PrivateAddresses::Allowed => true,
            PrivateAddresses::Refused => false,
        };
        let unlisted = match (self.only_listed, private) {
            (true, _) => Unlisted::None,
            (false, true) => Unlisted::Any,
            (false, false) => Unlisted::Public,
        };
        endpoint::NetworkRule { allow: self.allow.clone(), deny: self.deny.clone(), unlisted }
    }

    /// Networks on both lists, which are denied: the allowed one and the denied one that contains it.
    pub(in crate::config) fn overruled(&self) -> impl Iterator<Item = (&Cidr, &Cidr)> {
        let within = |allowed: &Cidr| self.deny.iter().find(|denied| covers(denied, allowed));
        self.allow.iter().filter_map(move |allowed| Some((allowed, within(allowed)?)))
    }
}

fn covers(outer: &Cidr, inner: &Cidr) -> bool {
    let ((_, outer_prefix), (first, inner_prefix)) = (parts(outer), parts(inner));
    outer_prefix <= inner_prefix && first.is_some_and(|first| outer.contains(first))
}

/// The first address and the prefix length, from the text form.
fn parts(network: &Cidr) -> (Option<IpAddr>, Option<u8>) {
    let text = network.to_string();
    let (first, prefix) = text.split_once('/').unwrap_or((&text, ""));
    (first.parse().ok(), prefix.parse().ok())
}

impl Parsed for PrivateAddresses {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        match value {
            Value::Boolean(true) => Ok(Self::Allowed),
            Value::Boolean(false) => Ok(Self::Refused),
            Value::Text(text) if text == "auto" => Ok(Self::Auto),
            Value::Text(text) => {
                let remedy = format!("expected {}", kind.expected());
                Err(InvalidValue::new(format!("is {}", quoted(text)), remedy))
            }
            other => Err(InvalidValue::new(format!("is {}", other.kind()), kind.expected())),
        }
    }

    fn shown(&self) -> String {
        let word = match self {
            Self::Auto => "auto",
            Self::Allowed => "true",
            Self::Refused => "false",
        };
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn network(private: PrivateAddresses, only_listed: bool) -> NetworkConfig {
        NetworkConfig { allow: vec![], deny: vec![], private, only_listed }
    }

    #[track_caller]
    fn check(private: PrivateAddresses, listen: &str, expected: Unlisted) {
        let server = ServerConfig { listen: listen.parse().unwrap(), ..Config::default().server };
        assert_eq!(network(private, false).rule(&server).unlisted, expected);
        assert_eq!(network(private, true).rule(&server).unlisted, Unlisted::None);
    }

    #[test]
    fn private_addresses_are_allowed_while_listening_on_loopback() {
        check(PrivateAddresses::Auto, "127.0.0.1:1", Unlisted::Any);
        check(PrivateAddresses::Auto, "0.0.0.0:1", Unlisted::Public);
        check(PrivateAddresses::Allowed, "0.0.0.0:1", Unlisted::Any);
        check(PrivateAddresses::Refused, "127.0.0.1:1", Unlisted::Public);
    }

    #[test]
    fn a_network_within_a_denied_one_is_overruled() {
        let check = |allow: &str, deny: &str, expected: bool| {
            let list = |text: &str| vec![text.parse().unwrap()];
            let network = NetworkConfig {
                allow: list(allow),
                deny: list(deny),
                ..network(PrivateAddresses::Auto, false)
            };
            assert_eq!(network.overruled().next().is_some(), expected, "{allow} {deny}");
        };
        check("10.0.0.0/8", "10.0.0.0/8", true);
        check("10.1.0.0/16", "10.0.0.0/8", true);
        check("10.0.0.0/8", "10.1.0.0/16", false);
        check("10.0.0.0/8", "11.0.0.0/8", false);
        check("::1", "0.0.0.0/0", false);
        check("fd00::1", "fd00::/8", true);
    }
}

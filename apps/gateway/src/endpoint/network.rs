//! Which addresses endpoints may have (protection against SSRF).
//!
//! The rule is applied to the address that is dialled, not to the name in the URL: a name that resolves differently
//! between the check and the call gains nothing. An address is checked in all its forms: an IPv4-mapped IPv6 address as
//! IPv4, and a NAT64 address also as the IPv4 address that it leads to. `deny` wins over `allow`, `allow` over the
//! default, and cloud metadata addresses are refused unless they are listed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Cidr;

/// Which addresses are allowed: `deny` wins over `allow`, and `unlisted` decides for all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkRule {
    /// Always allowed, private or not, unless denied.
    pub allow: Vec<Cidr>,
    /// Never allowed.
    pub deny: Vec<Cidr>,
    /// What applies to addresses on neither list.
    pub unlisted: Unlisted,
}

/// What applies to addresses on neither list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unlisted {
    /// All are allowed, including private ones, but not cloud metadata services.
    Any,
    /// Public ones are allowed; private and special ones (loopback, link-local, documentation …) are not.
    #[default]
    Public,
    /// None are allowed: `allow` is the whole list.
    None,
}

impl NetworkRule {
    /// No lists; private addresses are allowed. For a gateway that listens on loopback.
    pub fn any() -> Self {
        Self { unlisted: Unlisted::Any, ..Self::default() }
    }

    /// Whether this address is allowed.
    pub fn permits(&self, address: IpAddr) -> bool {
        let forms = forms(address);
        let listed = |list: &[Cidr]| {
            forms.iter().flatten().any(|form| list.iter().any(|range| range.contains(*form)))
        };
        if listed(&self.deny) {
            return false;
        }
        listed(&self.allow)
            || match self.unlisted {
                Unlisted::Any => forms.iter().flatten().all(|form| !is_metadata(*form)),
                Unlisted::Public => forms.iter().flatten().all(|form| !is_special(*form)),
                Unlisted::None => false,
            }
    }
}

/// The address without IPv4 mapping, and the IPv4 address that NAT64 would translate it to.
fn forms(address: IpAddr) -> [Option<IpAddr>; 2] {
    let canonical = address.to_canonical();
    [Some(canonical), translated(canonical)]
}

/// `64:ff9b::/96` is how IPv6-only networks reach IPv4 (RFC 6052): the IPv4 address decides.
fn translated(address: IpAddr) -> Option<IpAddr> {
    const NAT64: Cidr = Cidr::v6([0x64, 0xff9b, 0], 96);
    match address {
        IpAddr::V6(wrapped) if NAT64.contains(address) => {
            let [.., a, b, c, d] = wrapped.octets();
            Some(Ipv4Addr::new(a, b, c, d).into())
        }
        _ => None,
    }
}

/// Private or special-purpose: not on the public internet.
fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => SPECIAL_V4.iter().any(|range| range.contains(address)),
        IpAddr::V6(address) => is_special_v6(address),
    }
}

/// Cloud metadata services, which hand out credentials.
fn is_metadata(address: IpAddr) -> bool {
    METADATA.iter().any(|range| range.contains(address))
}

const METADATA: [Cidr; 5] = [
    Cidr::v4([169, 254, 0, 0], 16),
    Cidr::v4([100, 100, 100, 200], 32),
    Cidr::v4([168, 63, 129, 16], 32),
    Cidr::v6([0xfd00, 0xec2, 0], 32),
    Cidr::v6([0xfd20, 0xce, 0], 32),
];

/// RFC 6890 and IANA's registry of special-purpose addresses.
const SPECIAL_V4: [Cidr; 16] = [
    Cidr::v4([0, 0, 0, 0], 8),
    Cidr::v4([10, 0, 0, 0], 8),
    Cidr::v4([100, 64, 0, 0], 10), // shared by carriers; some clouds' metadata
    Cidr::v4([127, 0, 0, 0], 8),
    Cidr::v4([169, 254, 0, 0], 16), // link-local; most clouds' metadata
    Cidr::v4([172, 16, 0, 0], 12),
    Cidr::v4([192, 0, 0, 0], 24),
    Cidr::v4([192, 0, 2, 0], 24),
    Cidr::v4([192, 88, 99, 0], 24),
    Cidr::v4([192, 168, 0, 0], 16),
    Cidr::v4([198, 18, 0, 0], 15),
    Cidr::v4([198, 51, 100, 0], 24),
    Cidr::v4([203, 0, 113, 0], 24),
    Cidr::v4([224, 0, 0, 0], 4),
    Cidr::v4([240, 0, 0, 0], 4),      // reserved, with broadcast
    Cidr::v4([168, 63, 129, 16], 32), // Azure's platform services, on a public address
];

/// Within the public 2000::/3: protocol assignments with Teredo, documentation, 6to4, documentation again.
const SPECIAL_V6: [Cidr; 4] = [
    Cidr::v6([0x2001, 0, 0], 23),
    Cidr::v6([0x2001, 0xdb8, 0], 32),
    Cidr::v6([0x2002, 0, 0], 16),
    Cidr::v6([0x3fff, 0, 0], 20),
];

fn is_special_v6(address: Ipv6Addr) -> bool {
    const PUBLIC: Cidr = Cidr::v6([0x2000, 0, 0], 3);
    let address = IpAddr::V6(address);
    if translated(address).is_some() {
        return false; // judged by its IPv4 form
    }
    !PUBLIC.contains(address) || SPECIAL_V6.iter().any(|range| range.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(network: &NetworkRule, addresses: &[&str], expected: bool) {
        for address in addresses {
            assert_eq!(network.permits(address.parse().unwrap()), expected, "{address}");
        }
    }

    fn ranges(text: &[&str]) -> Vec<Cidr> {
        text.iter().map(|range| range.parse().unwrap()).collect()
    }

    const PUBLIC: [&str; 6] = [
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ];

    const SPECIAL: [&str; 35] = [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.168.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];

    const METADATA_TEXTS: [&str; 7] = [
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fd00:ec2::254",
        "fd20:ce::254",
    ];

    #[test]
    fn by_default_only_public_addresses_are_allowed() {
        check(&NetworkRule::default(), &PUBLIC, true);
        check(&NetworkRule::default(), &SPECIAL, false);
    }

    #[test]
    fn private_addresses_can_be_allowed_as_a_whole() {
        check(&NetworkRule::any(), &PUBLIC, true);
        let (metadata, private): (Vec<_>, Vec<_>) =
            SPECIAL.iter().partition(|text| METADATA_TEXTS.contains(text));
        check(&NetworkRule::any(), &private, true);
        check(&NetworkRule::any(), &metadata, false);
        let listed = NetworkRule { allow: ranges(&["169.254.0.0/16"]), ..NetworkRule::any() };
        check(&listed, &["169.254.169.254"], true);
    }

    #[test]
    fn allow_wins_over_the_private_rule_and_deny_over_allow() {
        let network = NetworkRule {
            allow: ranges(&["10.0.0.0/8"]),
            deny: ranges(&["10.66.0.0/16", "1.1.1.0/24"]),
            ..NetworkRule::default()
        };
        check(&network, &["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "8.8.8.8"], true);
        check(&network, &["10.66.0.1", "::ffff:10.66.0.1", "64:ff9b::a42:1", "1.1.1.1"], false);
        check(&network, &["192.168.0.1"], false);
    }

    #[test]
    fn deny_wins_over_private_addresses_that_are_allowed_as_a_whole() {
        let network = NetworkRule { deny: ranges(&["10.66.0.0/16"]), ..NetworkRule::any() };
        check(&network, &["10.66.0.1", "::ffff:10.66.0.1"], false);
        check(&network, &["127.0.0.1"], true);
    }

    #[test]
    fn an_allow_list_can_be_the_whole_list() {
        let network = NetworkRule {
            allow: ranges(&["1.1.1.1", "10.0.0.0/8"]),
            unlisted: Unlisted::None,
            ..NetworkRule::default()
        };
        check(&network, &["1.1.1.1", "10.9.9.9"], true);
        check(&network, &["8.8.8.8", "127.0.0.1", "2606:4700::1111"], false);
    }
}

//! Ranges of addresses in CIDR notation.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use bezoar::Invalid;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    pub(super) const fn v4(first: [u8; 4], prefix: u8) -> Self {
        let [a, b, c, d] = first;
        Self(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)))
    }

    /// The range of addresses whose first three groups are `first`.
    pub(super) const fn v6(first: [u16; 3], prefix: u8) -> Self {
        let [a, b, c] = first;
        Self(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)))
    }

    /// Whether the address is in the range. An IPv4 address is in no IPv6 range, nor the reverse.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Addresses are compared as IPv4 if they are IPv4-mapped, so ranges are converted too.
    fn canonical(self) -> Self {
        match (self.0.addr().to_canonical(), self.0.prefix_len().checked_sub(96)) {
            (IpAddr::V4(first), Some(prefix)) if self.0.addr().is_ipv6() => {
                Self(Ipv4Net::new_assert(first, prefix).into())
            }
            _ => self,
        }
    }
}

impl FromStr for Cidr {
    type Err = Invalid;

    /// Bits beyond the prefix are probably a typo, so they are rejected.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let range = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let range = range
            .map_err(|_| Invalid::new("network", "is not an address or a range like 10.0.0.0/8"))?;
        if range != range.trunc() {
            let problem = format!("has bits beyond its prefix; use {}", range.trunc());
            return Err(Invalid::new("network", problem));
        }
        Ok(Self(range).canonical())
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, address: &str, expected: bool) {
        let range: Cidr = range.parse().unwrap();
        assert_eq!(range.contains(address.parse().unwrap()), expected, "{address} in {range}");
    }

    #[test]
    fn a_range_contains_addresses_with_its_prefix() {
        check("10.0.0.0/8", "10.255.255.255", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("::/0", "1.2.3.4", false);
        check("192.168.1.7", "192.168.1.7", true);
        check("192.168.1.7", "192.168.1.6", false);
        check("fd00::/8", "fdff::1", true);
        check("fd00::/8", "fe00::1", false);
        check("::1", "::1", true);
        check("::ffff:10.0.0.0/104", "10.1.2.3", true);
        assert_eq!("::ffff:10.0.0.0/104".parse::<Cidr>().unwrap().to_string(), "10.0.0.0/8");
    }

    #[test]
    fn invalid_ranges_are_rejected_with_a_remedy() {
        for bad in ["", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "::/129", "10.0.0/8", "x"]
        {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        let error = "10.1.2.3/8".parse::<Cidr>().unwrap_err();
        assert_eq!(error.to_string(), "network has bits beyond its prefix; use 10.0.0.0/8");
        assert_eq!(
            "10.1.2.3/0".parse::<Cidr>().unwrap_err().to_string().split("use ").last(),
            Some("0.0.0.0/0")
        );
        assert!("fe80::1/10".parse::<Cidr>().unwrap_err().to_string().ends_with("fe80::/10"));
    }
}

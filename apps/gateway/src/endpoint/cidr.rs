//! Ranges of addresses in CIDR notation.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use bezoar::Invalid;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

impl Cidr {
    pub(super) const fn v4(first: [u8; 4], prefix: u8) -> Self {
        let [a, b, c, d] = first;
        Self { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// The range of addresses whose first three groups are `first`.
    pub(super) const fn v6(first: [u16; 3], prefix: u8) -> Self {
        let [a, b, c] = first;
        Self { first: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), prefix }
    }

    /// Whether the address is in the range. An IPv4 address is in no IPv6 range, nor the reverse.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4()
            && differing(self.first, address).leading_zeros() >= u32::from(self.prefix)
    }
}

/// The bits in which two addresses of one family differ, from the left.
fn differing(one: IpAddr, other: IpAddr) -> u128 {
    bits(one) ^ bits(other)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Cidr {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("network", "is not an address or a range like 10.0.0.0/8");
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let first: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix = match (prefix, text.contains('/')) {
            ("", false) => width(first),
            (digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| invalid())?
            }
            _ => return Err(invalid()),
        };
        if prefix > width(first) {
            return Err(invalid());
        }
        Self { first, prefix }.checked().map(Self::canonical)
    }
}

impl Cidr {
    /// Bits beyond the prefix are probably a typo, so they are rejected.
    fn checked(self) -> Result<Self, Invalid> {
        let beyond = bits(self.first).checked_shl(u32::from(self.prefix)).unwrap_or(0);
        if beyond == 0 {
            return Ok(self);
        }
        let problem = format!("has bits beyond its prefix; use {}", self.masked());
        Err(Invalid::new("network", problem))
    }

    fn masked(self) -> Self {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        let kept = bits(self.first) & mask;
        let first = match self.first {
            IpAddr::V4(_) => {
                let bits = u32::try_from(kept >> 96).expect("32 bits are left of 128");
                IpAddr::V4(Ipv4Addr::from_bits(bits))
            }
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(kept)),
        };
        Self { first, ..self }
    }

    /// Addresses are compared as IPv4 if they are IPv4-mapped, so ranges are converted too.
    fn canonical(self) -> Self {
        match self.first.to_canonical() {
            first @ IpAddr::V4(_) if self.first.is_ipv6() && self.prefix >= 96 => {
                Self { first, prefix: self.prefix - 96 }
            }
            _ => self,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    }

    #[test]
    fn invalid_ranges_are_rejected_with_a_remedy() {
        for bad in ["", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "::/129", "10.0.0/8", "x"]
        {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        let error = "10.1.2.3/8".parse::<Cidr>().unwrap_err();
        assert_eq!(error.to_string(), "network has bits beyond its prefix; use 10.0.0.0/8");
        assert!("fe80::1/10".parse::<Cidr>().unwrap_err().to_string().ends_with("fe80::/10"));
    }

    proptest! {
        #[test]
        fn a_range_agrees_with_comparing_bit_by_bit(a: u128, b: u128, prefix in 0_u8..=128) {
            let range = Cidr { first: IpAddr::V6(Ipv6Addr::from_bits(a)), prefix }.masked();
            let same = (0..prefix).all(|bit| (a >> (127 - bit)) & 1 == (b >> (127 - bit)) & 1);
            prop_assert_eq!(range.contains(IpAddr::V6(Ipv6Addr::from_bits(b))), same);
            prop_assert!(range.checked().is_ok());
        }

        #[test]
        fn a_range_is_read_back_from_its_text(bits: u32, prefix in 0_u8..=32) {
            let range = Cidr { first: IpAddr::V4(Ipv4Addr::from_bits(bits)), prefix }.masked();
            prop_assert_eq!(range.to_string().parse::<Cidr>().unwrap(), range);
        }
    }
}

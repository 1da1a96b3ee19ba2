//! `[server]`: how the gateway listens.

use std::{net::SocketAddr, time::Duration};

use crate::config::reader::{Section, SectionReader};

/// How the gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Address and port of the HTTP API.
    pub listen: SocketAddr,
    /// The maximum size of a message body.
    pub max_body_bytes: u64,
    /// The memory for the bodies of all requests together; at least one body of the maximum size fits.
    pub body_memory_bytes: u64,
    /// The maximum number of concurrent requests that send messages.
    pub max_in_flight: u32,
    /// How long deliveries in progress may take to finish when the gateway stops.
    pub drain: Duration,
}

impl ServerConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            listen: reader.or_default(section, "listen"),
            max_body_bytes: reader.or_default(section, "max_body"),
            body_memory_bytes: reader.or_default(section, "body_memory"),
            max_in_flight: reader.or_default(section, "max_in_flight"),
            drain: reader.or_default(section, "drain"),
        }
    }

    /// Whether it is reachable from this machine only.
    pub fn is_on_loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognized() {
        for (listen, expected) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            let server = ServerConfig {
                listen: listen.parse().unwrap(),
                max_body_bytes: 1,
                body_memory_bytes: 1,
                max_in_flight: 1,
                drain: Duration::ZERO,
            };
            assert_eq!(server.is_on_loopback(), expected, "{listen}");
        }
    }
}

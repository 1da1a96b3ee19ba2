//! Free ports. Below 32768: above it a client's own connection may take one while its server restarts.

use std::{net::TcpListener, ops::Range};

use anyhow::{Result, ensure};

const RANGE: Range<u16> = 21_000..32_000;

/// So many ports that nobody uses at this moment. Begins at a place that depends on our process, so that
/// two runs rarely want the same.
pub(crate) fn free(count: usize) -> Result<Vec<u16>> {
    let start = std::process::id() % u32::from(RANGE.end - RANGE.start);
    let first = RANGE.start + u16::try_from(start)?;
    let ports = (first..RANGE.end).chain(RANGE.start..first);
    let free: Vec<u16> = ports.filter(|port| is_free(*port)).take(count).collect();
    ensure!(free.len() == count, "there are no {count} free ports in {RANGE:?}");
    Ok(free)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_different_and_below_the_ephemeral_ones() {
        let mut ports = free(3).unwrap();
        ports.dedup();
        assert_eq!(ports.len(), 3);
        assert!(ports.iter().all(|port| *port < 32_768));
    }
}

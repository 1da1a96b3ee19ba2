//! Free TCP ports below 32768. Above that, a client's own connection may take a port while its server
//! restarts.

use std::{net::TcpListener, ops::Range, sync::Mutex};

use anyhow::{Context, Result};

const RANGE: Range<u16> = 21_000..32_000;

/// The next port to try. The start depends on the process, so that two processes rarely try the same port.
static NEXT: Mutex<Option<u16>> = Mutex::new(None);

/// `N` different ports that nobody uses at this moment. Another process may take one before it is used.
///
/// # Errors
///
/// If all ports are in use.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    let mut next = NEXT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let span = usize::from(RANGE.end - RANGE.start);
    let start = next.unwrap_or_else(|| RANGE.start + spread(std::process::id(), span));
    let ports = (start..RANGE.end).chain(RANGE.start..start);
    let found: Vec<u16> = ports.filter(|port| is_free(*port)).take(N).collect();
    *next = found.last().map(|last| if last + 1 < RANGE.end { last + 1 } else { RANGE.start });
    found.try_into().ok().with_context(|| format!("no {N} free ports in {RANGE:?}"))
}

/// Tests that run in parallel have consecutive process ids, which this spreads over the range.
fn spread(process: u32, span: usize) -> u16 {
    let scattered = (process as usize).wrapping_mul(7_919) % span;
    u16::try_from(scattered).unwrap_or_default()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_different_and_below_the_ephemeral_ones() -> Result<()> {
        let mut ports = [free::<3>()?, free::<3>()?].concat();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
        assert!(ports.iter().all(|port| *port < 32_768));
        Ok(())
    }
}

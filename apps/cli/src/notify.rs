//! Notifies systemd of state changes: sd_notify(3).

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::net::{SocketAddr, UnixDatagram},
};

/// The gateway accepts messages.
pub(crate) const READY: &str = "READY=1";
/// The gateway is stopping; messages in flight may still finish.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Notifies systemd, if it started this process. Failures are ignored.
pub(crate) fn tell(state: &str) {
    if let Some(name) = env::var_os("NOTIFY_SOCKET") {
        let _ = send(name, state);
    }
}

fn send(name: OsString, state: &str) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address(name)?).map(drop)
}

/// A leading @ stands for the zero byte of an abstract socket, which only Linux has.
fn address(name: OsString) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    {
        use std::os::{linux::net::SocketAddrExt, unix::ffi::OsStrExt};
        if let [b'@', rest @ ..] = name.as_bytes() {
            return SocketAddr::from_abstract_name(rest);
        }
    }
    SocketAddr::from_pathname(name)
}

//! A TCP proxy whose connections fail on demand.
//!
//! Every connection has a thread for each direction. When a connection is accepted, the caller's function decides how
//! it fails. In addition, all connections can be cut at once.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a stalled connection stays open.
const STALL: Duration = Duration::from_secs(15);
const BUFFER_BYTES: usize = 16 * 1024;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Upward,
    /// From the server to the client.
    Downward,
}

/// How a connection fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both sides see the connection end.
    Cut,
    /// No more bytes pass, and neither side notices.
    Stall,
    /// One direction ends, the other continues.
    HalfClose,
}

/// The fault of one connection: after `after_bytes` in one direction.
#[derive(Debug, Clone, Copy)]
pub struct FaultPlan {
    /// The direction whose bytes are counted.
    pub direction: Direction,
    /// How many bytes pass before the fault.
    pub after_bytes: usize,
    /// The fault that then happens.
    pub fault: Fault,
}

/// Sees, and may change, the bytes that a client sends; connections are numbered from 0.
type UploadFilter = Box<dyn FnMut(u32, &mut [u8]) + Send>;
type Planner = Box<dyn FnMut() -> Option<FaultPlan> + Send>;

/// A proxy in front of one server. Dropping it cuts all connections.
pub struct TcpProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    server: String,
    connections: AtomicU32,
    faults: AtomicU32,
    healed: AtomicBool,
    closed: AtomicBool,
    planner: Mutex<Planner>,
    filter: Mutex<UploadFilter>,
    open: Mutex<Vec<Weak<ProxiedConnection>>>,
}

struct ProxiedConnection {
    number: u32,
    client: TcpStream,
    server: TcpStream,
    plan: Option<FaultPlan>,
    stalled: AtomicBool,
}

impl fmt::Debug for TcpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl TcpProxy {
    /// A proxy whose connections fail only when they are [`cut`](Self::cut).
    ///
    /// # Errors
    ///
    /// If no port can be opened.
    pub fn to(server: impl Into<String>) -> io::Result<Self> {
        Self::start(server.into(), Box::new(|| None), Box::new(|_, _| ()))
    }

    /// A proxy that asks `planner` for the fault of each connection, in the order of connections.
    ///
    /// # Errors
    ///
    /// Same as [`to`](Self::to).
    pub fn with_faults(
        server: impl Into<String>,
        planner: impl FnMut() -> Option<FaultPlan> + Send + 'static,
    ) -> io::Result<Self> {
        Self::start(server.into(), Box::new(planner), Box::new(|_, _| ()))
    }

    /// A proxy that hands `filter` the bytes that clients send, which it may change. Connections are numbered from 0.
    ///
    /// # Errors
    ///
    /// Same as [`to`](Self::to).
    pub fn with_upload_filter(
        server: impl Into<String>,
        filter: impl FnMut(u32, &mut [u8]) + Send + 'static,
    ) -> io::Result<Self> {
        Self::start(server.into(), Box::new(|| None), Box::new(filter))
    }

    fn start(server: String, planner: Planner, filter: UploadFilter) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            connections: AtomicU32::new(0),
            faults: AtomicU32::new(0),
            healed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            planner: Mutex::new(planner),
            filter: Mutex::new(filter),
            open: Mutex::default(),
        });
        let accepting = shared.clone();
        thread::spawn(move || accepting.accept_from(&listener));
        Ok(Self { shared, address })
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections have failed by their plan.
    pub fn faults(&self) -> u32 {
        self.shared.faults.load(Ordering::SeqCst)
    }

    /// Ends every connection at once, as if a cable was pulled and plugged in again.
    pub fn cut(&self) {
        self.shared.cut(|_| true);
    }

    /// Ends the connections that have a fault plan; new ones get none.
    pub fn heal(&self) {
        self.shared.healed.store(true, Ordering::SeqCst);
        self.shared.cut(|it| it.plan.is_some());
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn accept_from(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            // A server that is down drops the client, as a router does.
            let _ = self.pass(client);
        }
    }

    fn pass(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(&self.server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let healed = self.healed.load(Ordering::SeqCst);
        let plan = if healed { None } else { lock(&self.planner)() };
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        let stalled = AtomicBool::new(false);
        let connection = Arc::new(ProxiedConnection { number, client, server, plan, stalled });
        let mut open = lock(&self.open);
        open.retain(|it| it.strong_count() > 0);
        open.push(Arc::downgrade(&connection));
        drop(open);
        for direction in [Direction::Upward, Direction::Downward] {
            let (shared, connection) = (self.clone(), connection.clone());
            thread::spawn(move || shared.copy(&connection, direction));
        }
        Ok(())
    }

    fn copy(&self, connection: &ProxiedConnection, direction: Direction) {
        let (mut from, mut to) = match direction {
            Direction::Upward => (&connection.client, &connection.server),
            Direction::Downward => (&connection.server, &connection.client),
        };
        let plan = connection.plan.filter(|plan| plan.direction == direction);
        let mut left = plan.map_or(usize::MAX, |plan| plan.after_bytes);
        let mut buffer = vec![0; BUFFER_BYTES];
        while left > 0 {
            let most = left.min(buffer.len());
            let count = from.read(&mut buffer[..most]).unwrap_or(0);
            if direction == Direction::Upward {
                lock(&self.filter)(connection.number, &mut buffer[..count]);
            }
            let passes = !connection.stalled.load(Ordering::SeqCst);
            if count == 0 || passes && to.write_all(&buffer[..count]).is_err() {
                return connection.end();
            }
            left -= count;
        }
        if let Some(plan) = plan {
            self.faults.fetch_add(1, Ordering::SeqCst);
            connection.fail(plan.fault, to);
        }
    }

    fn cut(&self, which: impl Fn(&ProxiedConnection) -> bool) {
        let connections: Vec<_> = lock(&self.open).iter().filter_map(Weak::upgrade).collect();
        connections.iter().filter(|it| which(it)).for_each(|it| it.end());
    }
}

impl ProxiedConnection {
    /// Fails after the last planned byte went to `to`.
    fn fail(&self, fault: Fault, to: &TcpStream) {
        match fault {
            Fault::Cut => (),
            Fault::Stall => {
                self.stalled.store(true, Ordering::SeqCst);
                thread::sleep(STALL);
            }
            Fault::HalfClose => {
                let _ = to.shutdown(Shutdown::Write);
                thread::sleep(STALL);
            }
        }
        self.end();
    }

    fn end(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server.
    fn echo() -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::spawn(move || io::copy(&mut &stream, &mut &stream));
            }
        });
        Ok(address)
    }

    fn round_trip(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(bytes)?;
        let mut answer = vec![0; bytes.len()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn bytes_pass_until_the_connection_is_cut() -> io::Result<()> {
        let proxy = TcpProxy::to(echo()?)?;
        let mut stream = TcpStream::connect(proxy.address())?;
        assert_eq!(round_trip(&mut stream, b"hello")?, b"hello");
        proxy.cut();
        assert!(round_trip(&mut stream, b"hello").is_err());
        let mut again = TcpStream::connect(proxy.address())?;
        assert_eq!(round_trip(&mut again, b"again")?, b"again");
        Ok(())
    }

    #[test]
    fn a_planned_fault_happens_after_its_last_byte_and_not_once_healed() -> io::Result<()> {
        for direction in [Direction::Upward, Direction::Downward] {
            let plan = FaultPlan { direction, after_bytes: 5, fault: Fault::Cut };
            let proxy = TcpProxy::with_faults(echo()?, move || Some(plan))?;
            let mut stream = TcpStream::connect(proxy.address())?;
            assert!(round_trip(&mut stream, b"more than five").is_err());
            assert_eq!(proxy.faults(), 1);
            proxy.heal();
            let mut stream = TcpStream::connect(proxy.address())?;
            assert_eq!(round_trip(&mut stream, b"more than five")?, b"more than five");
        }
        Ok(())
    }

    #[test]
    fn uploads_can_be_rewritten() -> io::Result<()> {
        let proxy = TcpProxy::with_upload_filter(echo()?, |_, bytes| bytes.reverse())?;
        let mut stream = TcpStream::connect(proxy.address())?;
        assert_eq!(round_trip(&mut stream, b"abc")?, b"cba");
        Ok(())
    }
}

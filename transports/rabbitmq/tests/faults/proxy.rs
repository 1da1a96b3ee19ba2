//! A way to the broker on which every connection fails at some point.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

/// How long a connection that has failed silently stays as it is.
const SILENCE: Duration = Duration::from_secs(15);

/// How a connection fails.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Both sides see it end.
    Cut,
    /// Nothing passes any more, and nobody is told.
    Stall,
    /// One direction ends, the other goes on.
    HalfClose,
}

/// What happens to one connection: after so many bytes in one direction, this.
#[derive(Debug, Clone, Copy)]
struct Plan {
    upward: bool,
    after_bytes: usize,
    fault: Fault,
}

impl Plan {
    fn random(random: &mut impl Rng) -> Self {
        let fault = match random.random_range(0..4) {
            0 => Fault::Stall,
            1 => Fault::HalfClose,
            _ => Fault::Cut,
        };
        // From within the handshake to long after it, all magnitudes alike.
        let after_bytes = 2_f64.powf(random.random_range(5.0..17.0)) as usize;
        Self { upward: random.random(), after_bytes, fault }
    }
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    faults: Arc<AtomicU32>,
    healed: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// The same seed makes the same plans, in the order of connections.
    pub(crate) async fn to(broker: String, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (healed, is_healed) = watch::channel(false);
        let faults = Arc::<AtomicU32>::default();
        let (counted, mut random) = (faults.clone(), StdRng::seed_from_u64(seed));
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&broker).await else { continue };
                let plan = (!*is_healed.borrow()).then(|| Plan::random(&mut random));
                let (counted, mut is_healed) = (counted.clone(), is_healed.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = pass(near, far, plan, &counted) => (),
                        // What was to fail ends now; what came after is left alone.
                        _ = is_healed.wait_for(|healed| *healed), if plan.is_some() => (),
                    }
                });
            }
        });
        Self { address, faults, healed, accepting }
    }

    /// How many connections have failed.
    pub(crate) fn faults(&self) -> u32 {
        self.faults.load(Ordering::SeqCst)
    }

    /// From now on connections last.
    pub(crate) fn heal(&self) {
        self.healed.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(near: TcpStream, far: TcpStream, plan: Option<Plan>, faults: &AtomicU32) {
    let ((near_reads, near_writes), (far_reads, far_writes)) =
        (near.into_split(), far.into_split());
    let limit = |upward: bool| match plan {
        Some(plan) if plan.upward == upward => plan.after_bytes,
        _ => usize::MAX,
    };
    let mut up = std::pin::pin!(copy(near_reads, far_writes, limit(true)));
    let mut down = std::pin::pin!(copy(far_reads, near_writes, limit(false)));
    let (failed, mut halves) = tokio::select! {
        it = &mut up => (true, it),
        it = &mut down => (false, it),
    };
    let (Some(plan), false) = (plan, halves.ended) else { return };
    faults.fetch_add(1, Ordering::SeqCst);
    match plan.fault {
        Fault::Cut => (),
        Fault::Stall => sleep(SILENCE).await,
        Fault::HalfClose => {
            let _ = halves.writes.shutdown().await;
            let rest = async { if failed { down.await } else { up.await } };
            let _ = tokio::time::timeout(SILENCE, rest).await;
        }
    }
}

/// One direction of a connection, after it stopped.
struct Halves {
    _reads: OwnedReadHalf,
    writes: OwnedWriteHalf,
    /// By one of the sides, not by us.
    ended: bool,
}

/// Passes on so many bytes, to the last one.
async fn copy(mut reads: OwnedReadHalf, mut writes: OwnedWriteHalf, limit: usize) -> Halves {
    let (mut left, mut buffer) = (limit, vec![0; 16 * 1024]);
    while left > 0 {
        let most = left.min(buffer.len());
        let count = reads.read(&mut buffer[..most]).await.unwrap_or(0);
        if count == 0 || writes.write_all(&buffer[..count]).await.is_err() {
            return Halves { _reads: reads, writes, ended: true };
        }
        left -= count;
    }
    Halves { _reads: reads, writes, ended: false }
}

//! A message that crashes its process does not multiply: a copy with a raised count is handed out only once the broker has
//! removed its original.

use std::{
    num::NonZeroU32,
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use bezoar_core::{Delivery, QueueAdmin, Settlement, Subscription};
use bezoar_rabbitmq::{Options, QueueType};
use test_support::tcp_proxy::TcpProxy;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::support::{PATIENCE, Place, TYPES, at, broker, message, one, options, settle};

/// The start of a `basic.ack` frame: its size, class and method.
const ACK: [u8; 8] = [0, 0, 0, 13, 0, 60, 0, 80];
/// How long a message that must not arrive is waited for.
const QUIET: Duration = Duration::from_secs(1);

/// A proxy that keeps the first acknowledgement, and everything that clients write after it, until it is released.
struct AckHolder {
    proxy: TcpProxy,
    held: Option<oneshot::Receiver<()>>,
    release: Sender<()>,
}

impl AckHolder {
    fn start() -> Self {
        let (hold, held) = oneshot::channel();
        let (release, released): (Sender<()>, Receiver<()>) = channel();
        let mut hold = Some(hold);
        let proxy = TcpProxy::with_upload_filter(broker(), move |_, bytes| {
            let is_ack = bytes.windows(ACK.len()).any(|some| some == ACK);
            if is_ack && let Some(hold) = hold.take() {
                let _ = hold.send(());
                let _ = released.recv_timeout(PATIENCE);
            }
        });
        Self { proxy: proxy.unwrap(), held: Some(held), release }
    }

    /// The same queue, through the proxy.
    fn place(&self, place: &Place, queue_type: QueueType) -> Place {
        let url = at(&self.proxy.address().to_string());
        place.seen_with(Options { url: url.into(), ..options(queue_type) })
    }

    /// Waits until an acknowledgement is kept.
    async fn held(&mut self) {
        timeout(PATIENCE, self.held.take().unwrap()).await.expect("an ack is written").unwrap();
    }
}

/// A message that was delivered once without an outcome.
async fn delivered_once(queue_type: QueueType) -> Place {
    let place = Place::new(queue_type).await;
    place.send(message("m")).await.unwrap();
    let process = place.seen_with(options(queue_type));
    drop(one(&*process.worker().await).await);
    process.transport.close().await;
    place
}

async fn next(worker: &dyn Subscription) -> Delivery {
    loop {
        if let Some(held) = worker.receive(NonZeroU32::MIN, PATIENCE).await.unwrap().pop() {
            return held;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_counted_copy_is_handed_out_once_its_original_is_removed() {
    for queue_type in TYPES {
        let place = delivered_once(queue_type).await;
        let mut holder = AckHolder::start();
        let process = holder.place(&place, queue_type);
        // Another consumer of the same process may get the copy.
        let (worker, other) = (process.worker().await, process.worker().await);
        let quiet = async {
            holder.held().await;
            sleep(QUIET).await;
        };
        tokio::select! {
            biased;
            _ = next(&*worker) => panic!("{queue_type:?}: handed out beside its original"),
            _ = next(&*other) => panic!("{queue_type:?}: handed out beside its original, by another consumer"),
            () = quiet => (),
        }
        holder.release.send(()).unwrap();
        let (held, of) = tokio::select! {
            held = next(&*worker) => (held, &worker),
            held = next(&*other) => (held, &other),
        };
        assert_eq!(held.message.ledger.acquired, 2);
        settle(&**of, held, Settlement::Complete).await;
        assert_eq!(process.transport.depth(&place.queue).await.unwrap().ready, Some(0));
    }
}

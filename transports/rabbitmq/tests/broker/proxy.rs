//! A way to the broker that can be cut, or that changes what is sent.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cuts: watch::Sender<u32>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(broker: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, cut) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (broker, mut cut) = (broker.clone(), cut.clone());
                cut.borrow_and_update();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(broker).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => (),
                        _ = cut.changed() => (),
                    }
                });
            }
        });
        Self { address, cuts, accepting }
    }

    /// Puts other bytes in the place of some, on their way to the broker.
    pub(crate) async fn rewriting(
        broker: String,
        from: &'static [u8; 8],
        to: &'static [u8; 8],
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            let (near, far) =
                (listener.accept().await.unwrap().0, TcpStream::connect(broker).await.unwrap());
            let ((mut near_reads, mut near_writes), (mut far_reads, mut far_writes)) =
                (near.into_split(), far.into_split());
            let up = async {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = near_reads.read(&mut buffer).await {
                    let sent = &mut buffer[..count];
                    if let Some(at) = sent.windows(8).position(|some| some == from) {
                        sent[at..at + 8].copy_from_slice(to);
                    }
                    far_writes.write_all(sent).await.unwrap();
                }
            };
            tokio::join!(up, copy(&mut far_reads, &mut near_writes)).1.unwrap();
        });
        Self { address, cuts: watch::Sender::new(0), accepting }
    }

    /// Ends every connection at once, as if a cable was pulled and put back.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

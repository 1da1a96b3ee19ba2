//! Clients that take their time. That they are cut off in the end is tested beside the server.

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    MESSAGES,
    socket::{connect, request},
    still_accepts,
    support::Lab,
};

const CLIENTS: usize = 200;

async fn begin(lab: &Lab, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(lab).await;
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_drip_do_not_keep_others_waiting() {
    let lab = Lab::start("").await;
    let body = request(&lab, &format!("POST {MESSAGES}"), "content-length: 1000\r\n", b"x");
    let mut dripping = Vec::new();
    for _ in 0..CLIENTS {
        dripping.push(begin(&lab, b"GET /v1/que").await);
        dripping.push(begin(&lab, &body).await);
    }
    for _ in 0..20 {
        still_accepts(&lab).await;
        for stream in &mut dripping {
            stream.write_all(b"x").await.unwrap();
        }
    }
    lab.until("default", |row| row["ready"] == 20).await;
}

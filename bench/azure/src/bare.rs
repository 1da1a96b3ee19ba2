//! The limit: the official crate used bare, with a text of the same size as our body in base64. No envelope, no lease
//! table, no time to live, no error mapping.

use anyhow::{Context as _, Result};
use azure_core::http::Url;
use azure_storage_queue::{QueueClient, models::QueueMessage};
use bench_support::Measurement;
use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::{BODY, CONCURRENCY, rate, server::Server};

pub(crate) const NAME: &str = "official crate, bare";

const QUEUE: &str = "bench-bare";

pub(crate) async fn measure(server: &Server, count: u64) -> Result<Measurement> {
    let client = client(server)?;
    client.create(None).await?;
    let started = Instant::now();
    let loops = (0..CONCURRENCY).map(|_| tokio::spawn(work(client.clone(), count / CONCURRENCY)));
    for ended in try_join_all(loops).await? {
        ended?;
    }
    let measured = rate(&server.row(NAME), count, started);
    client.delete(None).await?;
    Ok(measured)
}

fn client(server: &Server) -> Result<std::sync::Arc<QueueClient>> {
    let client = QueueClient::new(Url::parse(&server.queue(QUEUE))?, None, None)?;
    Ok(client.into())
}

async fn work(client: std::sync::Arc<QueueClient>, count: u64) -> Result<()> {
    let text = String::from_utf8([BODY.as_slice(), &BODY[..68]].concat())?;
    for _ in 0..count {
        let message = QueueMessage { message_text: Some(text.clone()) };
        client.send_message(message.try_into()?, None).await?;
        let received = loop {
            let received = client.receive_messages(None).await?.into_model()?;
            if let Some(message) = received.items.and_then(|items| items.into_iter().next()) {
                break message;
            }
        };
        let id = received.message_id.context("it has no id")?;
        let pop_receipt = received.pop_receipt.context("it has no pop receipt")?;
        client.delete_message(&id, &pop_receipt, None).await?;
    }
    Ok(())
}

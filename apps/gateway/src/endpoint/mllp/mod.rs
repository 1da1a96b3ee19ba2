//! Delivers HL7 messages by MLLP: a frame with the message, then a frame with its acknowledgement.
//!
//! One message at a time travels on each connection. A connection is kept only after an acknowledgement that belongs to the
//! message and after which nothing more is due, so that a late reply can never be taken for the reply to the next message.
//! The receiver may close a kept connection at the moment it is used again: a message on a kept connection that gets no
//! reply is sent once more, on a new connection.

mod connections;
mod frame;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use self::{
    connections::{IdleConnections, MllpConnection},
    frame::Reply,
};
use super::{
    CallError, CallErrorKind, EndpointClient, EndpointUrl,
    client::NoReply,
    hl7::{Acknowledgement, BadAck, Unsendable, acknowledgement},
};

/// The connections of a route to an MLLP receiver. There are at most as many as deliveries at a time.
#[derive(Debug)]
pub(super) struct MllpReceiver {
    url: EndpointUrl,
    client: EndpointClient,
    idle: IdleConnections,
}

impl MllpReceiver {
    pub(super) fn new(url: EndpointUrl, client: EndpointClient) -> Self {
        Self { url, idle: IdleConnections::new(client.mllp_idle()), client }
    }

    /// Sends a message and returns its acknowledgement. Dropping the future closes the connection.
    pub(super) async fn exchange(
        &self,
        message: &Bytes,
        control_id: &[u8],
        deadline: Instant,
    ) -> Result<Result<Acknowledgement, BadAck>, NoReply> {
        if let Some(kept) = self.idle.take().await {
            match self.converse(kept, message, control_id, deadline).await {
                Err(error) if error.kind == CallErrorKind::Reset => (), // it may have been stale
                ended => return ended.map_err(|error| NoReply { error, fresh_connection: false }),
            }
        }
        let no_reply = |error| NoReply { error, fresh_connection: true };
        let fresh = self.connect(deadline).await.map_err(no_reply)?;
        self.converse(fresh, message, control_id, deadline).await.map_err(no_reply)
    }

    async fn connect(&self, deadline: Instant) -> Result<MllpConnection, CallError> {
        let connected = timeout_at(deadline, self.client.connect(&self.url)).await;
        let late = |_| Err(CallError::plain(CallErrorKind::ConnectTimeout));
        connected.unwrap_or_else(late).map(MllpConnection::new)
    }

    async fn converse(
        &self,
        mut connection: MllpConnection,
        message: &Bytes,
        control_id: &[u8],
        deadline: Instant,
    ) -> Result<Result<Acknowledgement, BadAck>, CallError> {
        let talking = async {
            frame::write(&mut connection, message).await?;
            frame::read(&mut connection).await
        };
        let talked = timeout_at(deadline, talking).await;
        match talked.unwrap_or_else(|_| Err(CallError::plain(CallErrorKind::Timeout)))? {
            Reply::NotAFrame(bytes) => Ok(Err(BadAck::missing(&bytes))),
            Reply::Frame { content, more } => {
                let answer = acknowledgement(&content, control_id);
                if !more && answer.as_ref().is_ok_and(|ack| !ack.code.is_commit()) {
                    self.idle.keep(connection);
                }
                Ok(answer)
            }
        }
    }
}

/// Whether a message can be framed. MLLP has no escapes: a framing byte within a message would end it early.
pub(super) fn check(message: &[u8]) -> Result<(), Unsendable> {
    match message.iter().any(|byte| matches!(*byte, frame::START | frame::END)) {
        true => Err(Unsendable::FramingBytes),
        false => Ok(()),
    }
}

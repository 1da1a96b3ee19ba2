//! Reads request bodies within limits: the size of each, the time it may take, and the memory of all together.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::Problem;

/// How long a client may take to send the body.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a request waits for memory before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);
/// The first allocation for a body that arrives in pieces.
const FIRST_BYTES: usize = 64 * 1024;

/// The memory for the bodies of all requests together. A body with a length is charged before it is read, in turn: bodies
/// that are charged piece by piece could all wait for each other. One without a length is charged as it arrives.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    free: Semaphore,
    limit_bytes: usize,
}

/// A body, and its share of the memory until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody<'a> {
    pub(super) bytes: Bytes,
    memory: Option<SemaphorePermit<'a>>,
    of: &'a BodyMemory,
}

impl HeldBody<'_> {
    /// Also holds so many bytes, for what the body becomes. Fails at once if there is no room for them.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        let held = self.memory.as_ref().map_or(0, SemaphorePermit::num_permits);
        if held.saturating_add(bytes) > self.of.limit_bytes {
            return Err(never_fits());
        }
        let count = u32::try_from(bytes).map_err(|_| busy())?;
        let more = self.of.free.try_acquire_many(count).map_err(|_| busy())?;
        add(&mut self.memory, more);
        Ok(())
    }
}

impl BodyMemory {
    /// So many bytes.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let limit_bytes = limit_bytes.min(Semaphore::MAX_PERMITS);
        Self { free: Semaphore::new(limit_bytes), limit_bytes }
    }

    /// Reads a body of at most `limit` bytes. A length that is announced and too large is refused at once.
    pub(super) async fn read(&self, body: Body, limit: usize) -> Result<HeldBody<'_>, Problem> {
        if body.size_hint().lower() > limit as u64 {
            return Err(too_large(limit));
        }
        timeout(DEADLINE, self.collect(body, limit)).await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn collect(&self, mut body: Body, limit: usize) -> Result<HeldBody<'_>, Problem> {
        let length = body.size_hint().exact().map(|length| length as usize);
        let mut memory = None;
        self.charge(&mut memory, length.unwrap_or(0)).await?;
        let mut buffer = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| incomplete())?;
            let Ok(chunk) = frame.into_data() else { continue };
            if chunk.len() > limit - buffer.len() {
                return Err(too_large(limit));
            }
            if length.is_none() {
                self.charge(&mut memory, chunk.len()).await?;
            }
            if buffer.is_empty() && body.is_end_stream() {
                return Ok(HeldBody { bytes: chunk, memory, of: self }); // whole, and needs no copy
            }
            if buffer.is_empty() {
                // All of it at once: memory that is not written to yet costs nothing, and growing would need it twice.
                buffer.reserve_exact(length.unwrap_or(FIRST_BYTES));
            }
            buffer.extend_from_slice(&chunk);
        }
        Ok(HeldBody { bytes: buffer.into(), memory, of: self })
    }

    /// Adds to what a body holds. Bodies without a length that wait for each other are refused when their patience ends.
    async fn charge<'a>(
        &'a self,
        held: &mut Option<SemaphorePermit<'a>>,
        bytes: usize,
    ) -> Result<(), Problem> {
        let count = u32::try_from(bytes).map_err(|_| busy())?;
        let more = timeout(PATIENCE, self.free.acquire_many(count)).await;
        let more = more.ok().and_then(Result::ok).ok_or_else(busy)?;
        add(held, more);
        Ok(())
    }
}

fn add<'a>(held: &mut Option<SemaphorePermit<'a>>, more: SemaphorePermit<'a>) {
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
}

fn never_fits() -> Problem {
    let detail = "the request needs more memory than server.body_memory allows; split it";
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than the limit of {limit} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
        .with(|it| it.limit_bytes = Some(limit as u64))
}

fn too_slow() -> Problem {
    let detail = format!("timed out: the body did not arrive within {} s", DEADLINE.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", detail)
}

fn incomplete() -> Problem {
    Problem::bad_request("the request body is incomplete")
}

/// There is no room for the request now.
pub(super) fn busy() -> Problem {
    let problem =
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests in progress");
    problem.retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// A body without a length, in pieces.
    fn pieces(count: usize, bytes: usize) -> Body {
        let piece = move |_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]));
        Body::from_stream(stream::iter((0..count).map(piece)))
    }

    /// A body that begins and then stalls.
    fn stalling(bytes: usize) -> Body {
        let begin = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))]);
        Body::from_stream(futures_util::StreamExt::chain(begin, stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_up_to_its_limit() {
        let memory = BodyMemory::new(10_000);
        for (count, bytes, whole) in [(0, 0, true), (1, 100, true), (10, 10, true), (11, 10, false)]
        {
            let read = memory.read(pieces(count, bytes), 100).await;
            match read {
                Ok(body) => assert!(whole && body.bytes.len() == count * bytes),
                Err(problem) => assert!(!whole && problem.code() == "too-large"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_announced_length_is_refused_before_anything_is_read() {
        let memory = BodyMemory::new(10_000);
        let body = Body::from(vec![b'x'; 101]);
        assert_eq!(memory.read(body, 100).await.unwrap_err().code(), "too-large");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_share_the_memory_and_give_it_back() {
        let memory = BodyMemory::new(100);
        let held = memory.read(pieces(6, 10), 100).await.unwrap();
        assert_eq!(memory.read(pieces(6, 10), 100).await.unwrap_err().code(), "busy");
        assert!(memory.read(pieces(4, 10), 100).await.is_ok());
        drop(held);
        assert!(memory.read(pieces(10, 10), 100).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_body_becomes_shares_the_memory_too() {
        let memory = BodyMemory::new(100);
        let mut held = memory.read(pieces(1, 10), 100).await.unwrap();
        held.hold(50).unwrap();
        assert_eq!(memory.read(pieces(5, 10), 100).await.unwrap_err().code(), "busy");
        assert_eq!(held.hold(41).unwrap_err().code(), "too-large");
        let mut other = memory.read(pieces(4, 10), 100).await.unwrap();
        assert_eq!(other.hold(1).unwrap_err().code(), "busy");
        drop(held);
        other.hold(60).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_sender_holds_only_what_it_has_sent_and_not_for_long() {
        let memory = BodyMemory::new(100);
        let (slow, other) =
            tokio::join!(memory.read(stalling(50), 100), memory.read(pieces(5, 10), 100));
        assert_eq!(slow.unwrap_err().code(), "too-slow");
        assert_eq!(other.unwrap().bytes.len(), 50);
    }
}

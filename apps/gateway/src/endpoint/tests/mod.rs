//! Deliveries to real servers on this machine, well-behaved and not.

mod acknowledging;
mod breaking;
mod calling;
mod delivering;
mod leaks;
mod misbehaving;
mod mllp;
mod pooling;
mod reaching;
mod replies;
mod server;
mod speed;
mod tls;

use std::{sync::Arc, time::Duration};

use bezoar::{
    Clock, Context, Failure, FailureError, HandlerError, Message, MessageId, MessageType, Postpone,
    QueueName, UncountedError,
};
use jiff::Timestamp;
use tokio::time::timeout;
use tower::{Service, ServiceExt};

use super::{ClientOptions, Endpoint, EndpointClient, EndpointOptions, NetworkRule};

/// What the tests give a delivery. Long enough for a busy machine where the outcome does not depend on it.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_614_265_330).unwrap()
    }
}

fn client_for(network: NetworkRule) -> EndpointClient {
    EndpointClient::new(ClientOptions { network, ..ClientOptions::default() })
}

fn client() -> EndpointClient {
    client_for(NetworkRule::any())
}

fn options(url: &str, timeout: Duration) -> EndpointOptions {
    let mut options = EndpointOptions::new(url.parse().unwrap());
    options.call.timeout = timeout;
    options
}

fn endpoint_with(options: EndpointOptions) -> Endpoint {
    Endpoint::new(options, client(), Arc::new(FixedClock))
}

fn endpoint(url: &str, timeout: Duration) -> Endpoint {
    endpoint_with(options(url, timeout))
}

fn message(body: Vec<u8>) -> Message {
    numbered(1, body)
}

fn numbered(number: u32, body: Vec<u8>) -> Message {
    let id = MessageId::new(format!("m-{number}")).unwrap();
    let message_type = MessageType::new("lab.result").unwrap();
    Message::new(id, message_type, Timestamp::UNIX_EPOCH, body)
}

/// An HL7 message with this control id.
fn hl7(control_id: &str) -> Vec<u8> {
    format!("MSH|^~\\&|HIS|Y|LAB|X|2026||ORU^R01|{control_id}|P|2.5\rPID|1||CANARY\r").into()
}

fn context(message: Message) -> Context {
    Context::new(Arc::new(message), QueueName::new("lab").unwrap())
}

/// Delivers, and panics if that takes much longer than any deadline in these tests.
async fn deliver(endpoint: &Endpoint, message: Message) -> Result<(), HandlerError> {
    let mut endpoint = endpoint.clone();
    let delivered = async { endpoint.ready().await?.call(context(message)).await };
    let delivered = timeout(2 * LONG, delivered).await.expect("a delivery has a deadline");
    delivered.map_err(HandlerError::from)
}

async fn send(endpoint: &Endpoint) -> Result<(), HandlerError> {
    deliver(endpoint, message(b"hello".to_vec())).await
}

/// Another message than all others with this number.
async fn send_numbered(endpoint: &Endpoint, number: u32) -> Result<(), HandlerError> {
    deliver(endpoint, numbered(number, b"hello".to_vec())).await
}

fn failure(delivered: Result<(), HandlerError>) -> Failure {
    match delivered {
        Err(HandlerError::Failed(FailureError(failure))) => failure,
        Err(HandlerError::Uncounted(UncountedError { failure, .. })) => failure,
        other => panic!("{other:?}"),
    }
}

fn postponed(delivered: Result<(), HandlerError>) -> Duration {
    match delivered {
        Err(HandlerError::Postponed(Postpone(after))) => after,
        other => panic!("{other:?}"),
    }
}

/// "done", "postponed", or kind and code, and whether that uses up a retry.
fn shown(delivered: &Result<(), HandlerError>) -> String {
    match delivered {
        Ok(()) => "done".to_owned(),
        Err(HandlerError::Postponed(_)) => "postponed".to_owned(),
        Err(error) => error.to_string(),
    }
}

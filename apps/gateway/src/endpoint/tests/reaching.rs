//! Which addresses are dialled: asked of the address, whatever the name.

use std::sync::Arc;

use bezoar::Code;
use tokio::sync::mpsc;

use super::{
    FixedClock, LONG, client_for, options, postponed, send,
    server::{Server, answering},
    shown,
};
use crate::endpoint::{CallErrorKind, Endpoint, NetworkRule, Unlisted};

/// Loopback by many names, all of which lead to 127.0.0.1 on this system.
const LOOPBACK: [&str; 9] = [
    "127.0.0.1",
    "localhost",
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "2130706433",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
];

fn endpoint(
    server: &Server,
    host: &str,
    network: NetworkRule,
) -> (Endpoint, mpsc::UnboundedReceiver<Code>) {
    let (told, codes) = mpsc::unbounded_channel();
    let mut options = options(&format!("http://{host}:{}/", server.address.port()), LONG);
    options.on_pause = Some(Arc::new(move |request| told.send(request.code).unwrap()));
    (Endpoint::new(options, client_for(network), Arc::new(FixedClock)), codes)
}

fn network(allow: &[&str], deny: &[&str], unlisted: Unlisted) -> NetworkRule {
    let ranges = |list: &[&str]| list.iter().map(|range| range.parse().unwrap()).collect();
    NetworkRule { allow: ranges(allow), deny: ranges(deny), unlisted }
}

async fn check_denied(host: &str, network: &NetworkRule) {
    let (server, _requests) = answering(|| http::StatusCode::OK).await;
    let (endpoint, mut codes) = endpoint(&server, host, network.clone());
    assert!(!postponed(send(&endpoint).await).is_zero(), "{host}");
    assert_eq!(codes.recv().await.unwrap().as_str(), "target.denied", "{host}");
    assert_eq!(server.connections().accepted, 0, "{host}");
}

async fn check_reached(host: &str, network: &NetworkRule) {
    let (server, _requests) = answering(|| http::StatusCode::OK).await;
    let (endpoint, _codes) = endpoint(&server, host, network.clone());
    assert_eq!(shown(&send(&endpoint).await), "done", "{host}");
}

#[tokio::test]
async fn loopback_is_denied_by_whatever_name_where_private_addresses_are() {
    for host in LOOPBACK.into_iter().chain(["[::1]", "0.0.0.0", "[::]"]) {
        check_denied(host, &NetworkRule::default()).await;
    }
}

#[tokio::test]
async fn the_same_names_lead_there_where_private_addresses_are_allowed() {
    for host in LOOPBACK {
        check_reached(host, &NetworkRule::any()).await;
    }
}

#[tokio::test]
async fn lists_hold_for_the_address_behind_a_name() {
    let allowed = network(&["127.0.0.1"], &[], Unlisted::Public);
    check_reached("localhost", &allowed).await;
    check_reached("[::ffff:127.0.0.1]", &allowed).await;
    check_denied("127.0.0.2", &allowed).await;
    let denied = network(&["127.0.0.0/8"], &["127.0.0.1"], Unlisted::Any);
    check_denied("127.0.0.1", &denied).await;
    check_denied("2130706433", &denied).await;
    check_denied("127.0.0.1", &network(&[], &[], Unlisted::None)).await;
}

#[tokio::test]
async fn of_several_addresses_only_permitted_ones_are_dialled() {
    let ipv4_only = network(&["127.0.0.0/8"], &["::1"], Unlisted::None);
    check_reached("localhost", &ipv4_only).await;
}

#[tokio::test]
async fn a_name_that_does_not_exist_says_so() {
    let url = "http://nobody.invalid/CANARY".parse().unwrap();
    let error = client_for(NetworkRule::any()).reach(&url).await.unwrap_err();
    // Where the resolver itself is unreachable it may take longer than a connection may.
    assert!(matches!(error.kind, CallErrorKind::Dns | CallErrorKind::ConnectTimeout), "{error:?}");
}

#[tokio::test]
async fn reaching_an_endpoint_sends_nothing() {
    let (server, mut requests) = answering(|| http::StatusCode::OK).await;
    let client = client_for(NetworkRule::any());
    client.reach(&server.url().parse().unwrap()).await.unwrap();
    server.all_ended().await;
    assert_eq!(server.connections().accepted, 1);
    assert!(requests.try_recv().is_err());
    let denied = client_for(NetworkRule::default()).reach(&server.url().parse().unwrap()).await;
    assert_eq!(denied.unwrap_err().kind.code().as_str(), "target.denied");
}

//! A node of a cluster is killed under load, and the next one after it has rejoined.

use std::{sync::Arc, time::Duration};

use bezoar_rabbitmq::{Options, QueueType, RabbitTransport};

use super::{
    load::{IN_FLIGHT, Load, options},
    server::Cluster,
};

/// How long consumers may be without messages after a node was killed.
const BACK_WITHIN: Duration = Duration::from_secs(10);

async fn kill_nodes(kills: u32) {
    let mut cluster = Cluster::start("cluster").await;
    let transport = open(&cluster);
    let load = Load::begin(transport.clone(), Arc::new(transport.clone()), transport.clone()).await;
    let findings = findings(&transport).await;
    assert!(!findings.contains("rabbitmq-queues rebalance"), "created in balance: {findings}");
    for node in (0..cluster.size()).cycle().take(kills as usize) {
        load.more(200).await;
        cluster.kill(node);
        // More than the workers had prefetched.
        let away = load.handle_more(2 * IN_FLIGHT).await;
        cluster.restart(node);
        println!("node {node}: away for {away:?}, then leaders {:?}", cluster.leaders());
        assert!(away < BACK_WITHIN, "consumers were away for {away:?}");
    }
    cluster.rebalance();
    load.more(200).await;
    let verdict = load.end().await;
    let (accepted, duplicates) = (verdict.accepted, verdict.duplicates);
    println!("{accepted} accepted, {duplicates} duplicates, {} lost", verdict.lost.len());
    verdict.assert_kept(kills * IN_FLIGHT);
    assert_balanced(&cluster, &transport).await;
}

fn open(cluster: &Cluster) -> RabbitTransport {
    let management_url = Some(cluster.management_url().into());
    let options = Options { management_url, ..options(&cluster.url(), QueueType::Quorum) };
    RabbitTransport::open(options).unwrap()
}

/// The findings about the cluster, with their remedies.
async fn findings(transport: &RabbitTransport) -> String {
    format!("{:?}", transport.validate_all(&[]).await.unwrap().shared)
}

/// The remedy that the check names leaves no node with much more than its share. The broker balances only roughly: 15, 17
/// and 21 queues were seen.
async fn assert_balanced(cluster: &Cluster, transport: &RabbitTransport) {
    println!("leaders after rebalancing: {:?}", cluster.leaders());
    let findings = findings(transport).await;
    assert!(!findings.contains("rabbitmq-queues rebalance"), "{findings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts brokers of its own; `cargo xtask test` installs them"]
async fn a_cluster_whose_nodes_are_killed_loses_nothing() {
    kill_nodes(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten minutes; `cargo xtask soak` runs it"]
async fn soak_a_cluster_whose_nodes_are_killed_loses_nothing() {
    kill_nodes(10).await;
}

//! A private cluster of three RabbitMQ nodes on this machine.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::rabbitmq::{BrokerSetup, Ports, RabbitMq};

const NODES: usize = 3;
/// The nodes of a cluster recognize each other by a cookie. This one protects nothing: the nodes are private.
const COOKIE: &str = "BEZOARTESTCLUSTER";
const JOINED_WITHIN: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Three nodes, killed when this value is dropped.
#[derive(Debug)]
pub struct RabbitMqCluster {
    /// The first node owns Erlang's port mapper, which all of them use.
    nodes: Vec<RabbitMq>,
}

impl RabbitMqCluster {
    /// Starts three empty nodes, and waits until they are a cluster. Each has a folder of its own in that of `setup`.
    ///
    /// # Errors
    ///
    /// If one does not start, or does not join.
    pub fn start(setup: &BrokerSetup) -> Result<Self> {
        let mut cluster = Self { nodes: Self::prepare(setup)? };
        cluster.nodes[0].launch_mapper()?;
        for node in &mut cluster.nodes {
            node.launch()?;
        }
        for node in &mut cluster.nodes {
            node.await_ready()?;
        }
        cluster.await_joined(&cluster.nodes[0])?;
        Ok(cluster)
    }

    /// The AMQP URL, with all nodes.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(RabbitMq::address).collect();
        format!("amqp://guest:guest@{}/%2f", addresses.join(","))
    }

    /// The nodes.
    pub fn nodes(&self) -> &[RabbitMq] {
        &self.nodes
    }

    /// Kills a node at once. Its data stay.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a killed node again, and waits until it has joined the cluster and no other node is needed for the
    /// majority of a quorum queue.
    ///
    /// # Errors
    ///
    /// If it does not start or join.
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.nodes[node].restart()?;
        self.await_joined(&self.nodes[node])
    }

    /// Distributes the leaders of quorum queues among the nodes.
    ///
    /// # Errors
    ///
    /// If `rabbitmq-queues` fails.
    pub fn rebalance(&self) -> Result<()> {
        self.nodes[0].run("rabbitmq-queues", &["rebalance", "quorum"])
    }

    fn prepare(setup: &BrokerSetup) -> Result<Vec<RabbitMq>> {
        let mut ports = Ports::free()?;
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            let folder = setup.folder.join(format!("node-{number}"));
            let setup = BrokerSetup { folder, ..setup.clone() };
            nodes.push(RabbitMq::new(setup, ports));
            ports = ports.of_next_node()?;
        }
        let mut configuration =
            "cluster_formation.peer_discovery_backend = classic_config\n".to_owned();
        for (number, node) in (1..).zip(&nodes) {
            let name = node.node_name();
            configuration += &format!("cluster_formation.classic_config.nodes.{number} = {name}\n");
        }
        for node in &mut nodes {
            node.configure(&configuration);
            node.write_configuration()?;
            let cookie = node.file("home").join(".erlang.cookie");
            fs::write(&cookie, COOKIE)?;
            fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))?;
        }
        Ok(nodes)
    }

    fn await_joined(&self, node: &RabbitMq) -> Result<()> {
        let started = Instant::now();
        while !self.has_joined(node) {
            if started.elapsed() > JOINED_WITHIN {
                bail!("{} did not join its cluster", node.node_name());
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Whether this node sees all nodes, and each could be lost without losing the majority of a queue.
    fn has_joined(&self, node: &RabbitMq) -> bool {
        let nodes = node.management("/api/nodes?columns=name,running").unwrap_or_default();
        let running = nodes.matches("\"running\":true").count();
        let critical = "/api/health/checks/node-is-quorum-critical";
        running == NODES && self.nodes.iter().all(|node| node.management(critical).is_ok())
    }
}

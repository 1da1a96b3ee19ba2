//! A private broker, to be killed and started again with its data.

use test_support::{
    rabbitmq::{BrokerSetup, RabbitMq},
    rabbitmq_cluster::RabbitMqCluster,
};
use tokio::{
    sync::{Mutex, MutexGuard},
    task::block_in_place,
};

/// One broker at a time: several would slow each other down.
static TURN: Mutex<()> = Mutex::const_new(());

/// A broker that lives as long as this value.
pub(crate) struct Server {
    broker: RabbitMq,
    _turn: MutexGuard<'static, ()>,
}

impl Server {
    pub(crate) async fn start(name: &str) -> Self {
        let turn = TURN.lock().await;
        let broker = block_in_place(|| RabbitMq::start(BrokerSetup::under_test(name))).unwrap();
        Self { broker, _turn: turn }
    }

    pub(crate) fn url(&self) -> String {
        self.broker.url()
    }

    pub(crate) fn address(&self) -> String {
        self.broker.address()
    }

    /// Kills the broker at once.
    pub(crate) fn kill(&mut self) {
        self.broker.kill();
    }

    /// Starts the broker again, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        block_in_place(|| self.broker.restart()).unwrap();
    }

    /// Runs `rabbitmqctl`.
    pub(crate) fn control(&self, arguments: &[&str]) {
        block_in_place(|| self.broker.control(arguments)).unwrap();
    }
}

/// A cluster of three nodes that lives as long as this value.
pub(crate) struct Cluster {
    cluster: RabbitMqCluster,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    pub(crate) async fn start(name: &str) -> Self {
        let turn = TURN.lock().await;
        let setup = BrokerSetup::under_test(name);
        let cluster = block_in_place(|| RabbitMqCluster::start(&setup)).unwrap();
        Self { cluster, _turn: turn }
    }

    pub(crate) fn url(&self) -> String {
        self.cluster.url()
    }

    /// How many nodes there are.
    pub(crate) fn size(&self) -> usize {
        self.cluster.nodes().len()
    }

    /// Kills a node at once.
    pub(crate) fn kill(&mut self, node: usize) {
        self.cluster.kill(node);
    }

    /// Starts a node again, and waits until it has rejoined.
    pub(crate) fn restart(&mut self, node: usize) {
        block_in_place(|| self.cluster.restart(node)).unwrap();
    }

    pub(crate) fn management_url(&self) -> String {
        self.cluster.nodes()[0].management_url()
    }

    /// Distributes the leaders of quorum queues among the nodes.
    pub(crate) fn rebalance(&self) {
        block_in_place(|| self.cluster.rebalance()).unwrap();
    }

    /// How many quorum queues each node leads.
    pub(crate) fn leaders(&self) -> Vec<usize> {
        let path = "/api/queues?columns=leader,type&page=1&page_size=500";
        let answer = block_in_place(|| self.cluster.nodes()[0].management(path)).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let queues = answer["items"].as_array().unwrap();
        let leads = |name: String| queues.iter().filter(|queue| queue["leader"] == *name).count();
        self.cluster.nodes().iter().map(|node| leads(node.node_name())).collect()
    }
}

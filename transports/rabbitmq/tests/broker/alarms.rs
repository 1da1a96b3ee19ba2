//! A memory or disk alarm of the broker is a finding.

use bezoar_core::{Finding, QueueAdmin, Severity};
use bezoar_rabbitmq::Options;
use tokio::time::Instant;

use super::{
    private_broker,
    support::{PATIENCE, Place},
};

fn alarm(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|it| it.severity == Severity::Error && it.problem.contains("disk space"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn an_alarm_is_found_until_it_ends() {
    let broker = private_broker::start();
    let options = Options {
        management_url: Some(broker.management_url().into()),
        ..Options::from_url(&broker.url()).unwrap()
    };
    let place = Place::with(options).await;
    let validate = || async { place.transport.validate(&place.queue).await.unwrap() };
    assert_eq!(alarm(&validate().await), None);
    for (limit, expected) in [("900GB", true), ("1MB", false)] {
        broker.control(&["set_disk_free_limit", limit]).unwrap();
        let started = Instant::now();
        while alarm(&validate().await).is_some() != expected {
            assert!(started.elapsed() < 3 * PATIENCE, "an alarm: {}", !expected);
        }
    }
}

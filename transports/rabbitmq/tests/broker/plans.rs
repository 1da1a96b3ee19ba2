//! What `bezoar provision --print` says is all that an administrator has to create, in each of its forms.

use std::{env, path::Path, process::Stdio, time::Duration};

use bezoar_core::{QueueAdmin, QueueName, Settlement, Severity};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport, Topology};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command, time::Instant};

use super::{
    support::{PATIENCE, Place, dead_letter, message, one, retry, settle},
    vhost::{Vhost, fetch, import},
};

/// A plan for one queue, in a virtual host in which nothing exists.
async fn planned(queue_type: QueueType) -> (Vhost, Place, String, Topology) {
    let vhost = Vhost::new().await;
    // Few delay queues are enough.
    let options = Options { max_delay: Duration::from_secs(1), ..vhost.options(queue_type) };
    let transport = RabbitTransport::open(options).unwrap();
    let place = Place { transport, queue: QueueName::new("it's").unwrap() };
    let found = place.transport.validate(&place.queue).await.unwrap();
    assert!(found.iter().any(|it| it.severity == Severity::Error), "{found:?}");
    let (name, topology) = place.transport.plan(std::slice::from_ref(&place.queue)).unwrap();
    (vhost, place, name, topology)
}

/// Nothing is missing: the check finds nothing, and a user who may create nothing works with it.
async fn assert_complete(vhost: &Vhost, place: &Place, queue_type: QueueType) {
    let started = Instant::now();
    loop {
        let found = place.transport.validate(&place.queue).await.unwrap();
        if found.iter().all(|it| it.severity == Severity::Note) {
            break;
        }
        // Policies take a moment to apply.
        assert!(started.elapsed() < PATIENCE, "{found:?}");
    }
    let user = vhost.user().await;
    vhost.permit_exactly(&user, ["", ".*", ".*"]).await;
    let options = vhost.options_of(&user, queue_type);
    let place = place.seen_with(Options { max_delay: Duration::from_secs(1), ..options });
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    settle(&*worker, one(&*worker).await, retry(Duration::from_millis(100))).await;
    settle(&*worker, one(&*worker).await, dead_letter()).await;
    assert_eq!(place.replay_all().await, 1);
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_definitions_file_is_complete() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let (vhost, place, name, topology) = planned(queue_type).await;
        import(&topology.definitions(&name)).await;
        assert_complete(&vhost, &place, queue_type).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn policies_instead_of_arguments_are_complete() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let (vhost, place, name, topology) = planned(queue_type).await;
        let policies: Value = topology.policies(&name);
        import(&policies).await;
        assert_complete(&vhost, &place, queue_type).await;
    }
}

/// The broker has `rabbitmqadmin` itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP and Python in BEZOAR_TEST_PIKA; `cargo xtask test` has both"]
async fn commands_are_complete() {
    let (vhost, place, name, topology) = planned(QueueType::Quorum).await;
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rabbitmqadmin");
    std::fs::write(&program, fetch("cli/rabbitmqadmin").await).unwrap();
    let management = env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap();
    let port = management.rsplit_once(':').unwrap().1.trim_end_matches('/').to_owned();
    let mut shell = Command::new("sh");
    shell.arg("-e").stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    shell.env("PYTHON", env::var_os("BEZOAR_TEST_PIKA").expect("BEZOAR_TEST_PIKA is set"));
    let mut shell = shell.env("PROGRAM", &program).env("PORT", port).spawn().unwrap();
    let function = "rabbitmqadmin() { \"$PYTHON\" \"$PROGRAM\" --port=\"$PORT\" \"$@\"; }";
    let script = format!("{function}\n{}", topology.commands(&name));
    shell.stdin.take().unwrap().write_all(script.as_bytes()).await.unwrap();
    assert!(shell.wait().await.unwrap().success(), "a command failed");
    assert_complete(&vhost, &place, QueueType::Quorum).await;
}

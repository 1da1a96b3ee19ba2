//! A connection that dies without a word holds nothing up for long.

use test_support::tcp_proxy::{Direction, Fault, FaultPlan};
use tokio::time::Instant;

use super::*;

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_silent_connection_is_given_up_and_replaced() {
    let server = Postgres::start().unwrap();
    opened(options(&server.url())).await;
    let plan =
        FaultPlan { direction: Direction::Downward, after_bytes: 20_000, fault: Fault::Stall };
    let address = format!("127.0.0.1:{}", server.port());
    let proxy = TcpProxy::with_faults(address, move || Some(plan)).unwrap();
    let url = server.url_through(proxy.address().port());
    let second = Duration::from_secs(1);
    let through = opened(Options { statement_timeout: second, ..options(&url) }).await;
    let (mut number, mut longest) = (0, Duration::ZERO);
    let working = async {
        while proxy.faults() == 0 || send(&through, message("last")).await.is_err() {
            let began = Instant::now();
            let _ = send(&through, message(&format!("m-{number}"))).await;
            longest = longest.max(began.elapsed());
            number += 1;
        }
    };
    timeout(PATIENCE, working).await.expect("another connection is opened");
    println!("{number} messages; the longest took {longest:?}");
    // The proxy closes what it has silenced after 15 s, a network never.
    assert!(longest < Duration::from_secs(12), "{longest:?}");
}

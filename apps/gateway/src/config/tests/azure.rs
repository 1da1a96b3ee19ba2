//! `[transports.NAME]` for Azure Storage Queue.

use std::time::Duration;

use super::*;
use crate::config::{AzureConfig, TransportSettings, show_text};

const LAB: &str = "[transports.lab]\nurl = 'azurequeue:'\n";
const KEY: &str = "connection_string = 'env:AZURE'\n";

fn azure(text: &str) -> AzureConfig {
    let loaded = loaded(text);
    match &loaded.config.transports[0].settings {
        TransportSettings::Azure(azure) => (**azure).clone(),
        other => panic!("{other:?}"),
    }
}

fn route(from: &str, more: &str) -> String {
    format!("[[route]]\nname = 'a'\nfrom = '{from}'\nto = 'http://h/'\n{more}\n")
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let found = problems(text);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}\nlacks {expected}");
    }
}

#[test]
fn the_defaults_are_those_of_the_transport() {
    let azure = azure(&[LAB, KEY].concat());
    assert_eq!(azure.limits, bezoar::azure::Limits::default());
    assert!(azure.create_if_missing && azure.claim_check.is_none() && azure.time_to_live.is_none());
    let lease = Duration::from_secs(30);
    assert_eq!((azure.dead_letter_lease, azure.request_timeout), (lease, lease));
    let claim_check = [LAB, KEY, "claim_check = {}"].concat();
    let azure = self::azure(&claim_check);
    assert_eq!(azure.claim_check, Some(bezoar::azure::ClaimCheck::default()));
}

#[test]
fn a_key_of_another_kind_of_broker_is_unknown() {
    let of_azure = "known keys of Azure Storage Queue: url, connection_string, account,";
    let [found] = problems(&[LAB, KEY, "queue_type = 'quorum'"].concat()).try_into().unwrap();
    assert!(found.starts_with("bezoar.toml:4:1: transports.lab.queue_type is an unknown key"));
    assert!(found.contains("it is one of RabbitMQ;") && found.contains(of_azure), "{found}");
    let rabbit = "[transports.h]\nurl = 'amqp://localhost'\nprefetch = 5";
    let [found] = problems(rabbit).try_into().unwrap();
    assert!(found.contains("it is one of Azure Storage Queue;"), "{found}");
    assert!(found.contains("known keys of RabbitMQ: url, user, password,"), "{found}");
    let [found] = problems(&[LAB, KEY, "prefech = 5"].concat()).try_into().unwrap();
    assert!(found.ends_with("is an unknown key; did you mean prefetch?"), "{found}");
}

#[test]
fn a_url_that_says_no_kind_is_reported_with_those_that_do() {
    let examples =
        r#""amqp://user@localhost:5672/%2f" for RabbitMQ or "azurequeue:" for Azure Storage Queue"#;
    refused(
        "[transports.lab]\nprefetch = 5\nqueue_type = 'quorum'",
        &[&format!("transports.lab.url is missing; set a URL such as {examples}")],
    );
    refused(
        "[transports.lab]\nurl = 'kafka://h'",
        &[&format!("transports.lab.url has an unsupported scheme; use {examples}")],
    );
    refused("[transports.lab]\nurl = 'env:NONE'", &["url refers to env:NONE, which is not set"]);
    refused(
        "[transports.lab]\nurl = 'azurequeue:AccountKey=x'\nconnection_string = 'env:AZURE'",
        &["transports.lab.url has more than its scheme; write \"azurequeue:\""],
    );
}

#[test]
fn all_violations_are_reported_at_once_with_their_positions() {
    let wrong = "visibility_timeout = '8d'\nmax_dequeue_count = 0\nfetch_loops = 101\n\
                 prefetch = 33\npublish_concurrency = 129\nlongest_poll = '500ms'\n\
                 batch_concurrency = 17\nclaim_check = { container = 'No', max_bytes = '6GiB' }\n\
                 foreign_text = 'hex'\nerror_texts = 'hide'\ndead_letter_lease = '0s'\n\
                 request_timeout = '2h'\ntime_to_live = '0s'";
    let found = problems(&[LAB, wrong].concat());
    let keys = [
        "bezoar.toml:1:1: transports.lab.connection_string is missing",
        "bezoar.toml:3:22: transports.lab.visibility_timeout is \"8d\"",
        "bezoar.toml:4:21: transports.lab.max_dequeue_count is 0; set a whole number from 1 to 100",
        "bezoar.toml:5:15: transports.lab.fetch_loops is 101; set a whole number from 1 to 100",
        "bezoar.toml:6:12: transports.lab.prefetch is 33; set a whole number from 1 to 32",
        "bezoar.toml:7:23: transports.lab.publish_concurrency is 129",
        "transports.lab.first_poll is longer than longest_poll",
        "bezoar.toml:9:21: transports.lab.batch_concurrency is 17, more than prefetch 16",
        "transports.lab.claim_check.container must have 3 to 63 lowercase letters",
        "transports.lab.claim_check.max_bytes is \"6GiB\"",
        "transports.lab.foreign_text is \"hex\"",
        "transports.lab.error_texts is \"hide\"",
        "transports.lab.dead_letter_lease is \"0s\"",
        "transports.lab.request_timeout is \"2h\"",
        "transports.lab.time_to_live is \"0s\"",
    ];
    for key in keys {
        assert!(found.iter().any(|found| found.contains(key)), "{key}\n{found:#?}");
    }
    assert_eq!(found.len(), keys.len(), "{found:#?}");
}

#[test]
fn an_account_has_one_credential() {
    let account = "account = 'https://lab.queue.core.windows.net'\n";
    for good in ["credential = 'managed-identity'", "credential = 'azure-cli'", "sas = 'env:SAS'"] {
        assert!(load_text(&[LAB, account, good].concat()).is_ok(), "{good}");
    }
    refused(&[LAB, account].concat(), &["transports.lab.credential is missing; set either"]);
    let both = "credential = 'azure-cli'\nsas = 'env:SAS'";
    refused(&[LAB, account, both].concat(), &["transports.lab.credential is set beside sas"]);
    refused(
        &[LAB, KEY, account].concat(),
        &["transports.lab.account is set beside connection_string"],
    );
    let beside = [LAB, KEY, "sas = 'env:SAS'\nclient_id = 'c'"].concat();
    refused(&beside, &["lab.sas has no effect beside", "lab.client_id has no effect beside"]);
    let secret = [LAB, account, "credential = 'client-secret'\nclient_id = 'c'"].concat();
    refused(
        &secret,
        &["client-secret needs TenantId (or the variable AZURE_TENANT_ID), ClientSecret"],
    );
    let plain = account.replace("https:", "http:");
    refused(&[LAB, &plain, "credential = 'azure-cli'"].concat(), &["must begin with https://"]);
    refused(&[LAB, "account = 'lab'\nsas = 'env:SAS'"].concat(), &["account is not an endpoint"]);
}

#[test]
fn names_of_queues_follow_the_rule_of_azure() {
    let lab = [LAB, KEY].concat();
    let rule = "is not a valid name on Azure: use 3 to 63 lowercase letters, digits and hyphens";
    refused(
        &[&lab, &route("lab/Results", "")[..]].concat(),
        &[&format!("route[0].from \"Results\" {rule}")],
    );
    let queue = "[[queue]]\nname = 'lab/a--b'\ndead_letter_queue = 'x_y'";
    refused(
        &[&lab, queue].concat(),
        &[
            &format!("queue[0].name \"a--b\" {rule}"),
            &format!("queue[0].dead_letter_queue \"x_y\" {rule}"),
        ],
    );
    let long = "x".repeat(57);
    let [found] =
        problems(&[&lab, &route(&format!("lab/{long}"), "")[..]].concat()).try_into().unwrap();
    assert!(found.contains("leaves no room for -poison: use at most 56 characters"), "{found}");
    let own = format!("[[queue]]\nname = 'lab/{long}'\ndead_letter_queue = 'errors'");
    assert!(load_text(&[&lab, &own[..]].concat()).is_ok());
}

#[test]
fn what_only_rabbitmq_has_is_refused() {
    let lab = [LAB, KEY].concat();
    let queue = "[[queue]]\nname = 'lab/abc'\ndead_letter_exchange = 'x'\ndead_letter_key = 'y'";
    refused(
        &[&lab, queue].concat(),
        &[
            "queue[0].dead_letter_exchange is for RabbitMQ",
            "queue[0].dead_letter_key is for RabbitMQ",
        ],
    );
    refused(
        &[&lab, &route("lab/abc", "dead_letter = 'reject'")[..]].concat(),
        &["route[0].dead_letter is \"reject\", which the broker of this queue cannot do"],
    );
}

#[test]
fn a_route_has_the_limits_of_its_account_unless_it_sets_its_own() {
    let lab = [LAB, KEY, "fetch_loops = 3\nbatch_concurrency = 4\nvisibility_timeout = '1m'\nmax_dequeue_count = 7\n"].concat();
    let loaded = loaded(&[&lab, &route("lab/abc", "")[..]].concat());
    let of_route = &loaded.config.routes[0];
    assert_eq!(of_route.concurrency, 12, "fetch loops × concurrency within a batch");
    assert_eq!((of_route.lease, of_route.max_deliveries), (Duration::from_secs(60), 7));
    assert!(show_text(&loaded).contains("route[0].concurrency"), "shown as a default");
    let own = "concurrency = 5\nlease = '10s'\nmax_deliveries = 2";
    let config = self::loaded(&[&lab, &route("lab/abc", own)[..]].concat()).config;
    assert_eq!(config.routes[0].concurrency, 5);
    assert_eq!(
        (config.routes[0].lease, config.routes[0].max_deliveries),
        (Duration::from_secs(10), 2)
    );
    let embedded = self::loaded(&[&lab, &route("abc", "")[..]].concat()).config;
    assert_eq!(embedded.routes[0].concurrency, 16, "other routes keep their default");
}

#[test]
fn a_changed_secret_is_a_changed_transport() {
    let old = loaded(&[LAB, KEY].concat()).config;
    assert!(old.differences(&loaded(&[LAB, KEY].concat()).config).restart.is_empty());
    let other = [LAB, "connection_string = 'AccountName=lab;AccountKey=b3RoZXI='"].concat();
    assert_eq!(old.differences(&loaded(&other).config).restart, ["transports"]);
}

#[test]
fn a_retry_beyond_seven_days_is_refused() {
    let late = "retry = { max_retries = 1, first = '8d', max = '8d', jitter = 0 }";
    let [found] = problems(&[LAB, KEY, &route("lab/abc", late)].concat()).try_into().unwrap();
    assert!(
        found.contains("may wait 8d before a retry, longer than its broker can wait (7d)"),
        "{found}"
    );
}

#[test]
fn a_poison_queue_has_one_consumer() {
    let lab = [LAB, KEY].concat();
    let consumed =
        [&lab, "[[queue]]\nname = 'lab/abc'\n", &route("lab/abc-poison", "")[..]].concat();
    refused(
        &consumed,
        &[
            "queue[0].name has its dead letters in lab/abc-poison, which route a consumes; set watch = \"count\"",
        ],
    );
    assert!(load_text(&consumed.replace("'lab/abc'\n", "'lab/abc'\nwatch = 'count'\n")).is_ok());
    let shared = "[[queue]]\nname = 'lab/abc'\ndead_letter_queue = 'errors'\n\
                  [[queue]]\nname = 'lab/def'\ndead_letter_queue = 'errors'\n";
    refused(
        &[&lab, shared].concat(),
        &["queue[1].name has its dead letters in lab/errors, and so has queue lab/abc"],
    );
}

//! What people write.

use std::time::Duration;

use bezoar::{Backoff, Jitter, RetryPolicy};

use super::*;
use crate::config::{
    AckFormat, Config, DeadLetterMode, Key, LogFormat, LogLevel, Role, Secret, TransportSettings,
    Watch, keys, show, show_text,
};

/// Section 8 of the design, but for what comes later.
const DESIGN: &str = r#"
[server]
listen = "127.0.0.1:8420"

[store]
url = "sqlite:bezoar-data/bezoar.db"          # or postgres://…

[[route]]
name = "results"
from = "results"                              # transport/queue; a bare name is the embedded queue
to = "http://localhost:3000/results"
timeout = "30s"
concurrency = 16
immediate_retries = 0
retry = { max_retries = 3, first = "1s", multiplier = 2.0, max = "30s", jitter = 0.1 }   # or retry = "poison_queue"

[[token]]
name = "oncall"
role = "operator"
secret = "env:TOKEN"
"#;

/// Every key there is.
pub(super) const EVERYTHING: &str = r#"
[server]
listen = "0.0.0.0:9000"
max_body = "1MiB"
body_memory = "8MiB"
max_in_flight = 64
drain = "2m"

[store]
url = "sqlite:/var/lib/bezoar/bezoar.db"
max_size = "10GiB"
max_log = "2GiB"

[transports.hospital]
url = "amqps://one:5671,two:5671/lab"
user = "lab"
password = "env:TOKEN"
management_url = "https://one:15671"
management_ca = "/etc/bezoar/ca.pem"
queue_type = "classic"
provision = false
max_delay = "2h"
return_queues = "always"
consumer_timeout = "1h"
max_prefetch = "64MiB"
tls_ca = "/etc/bezoar/ca.pem"
tls_certificate = "/etc/bezoar/bezoar.pem"
tls_key = "/etc/bezoar/bezoar.key"

[transports.lab]
url = "azurequeue:"
connection_string = "env:AZURE"
create_if_missing = false
time_to_live = "30d"
visibility_timeout = "2m"
max_dequeue_count = 7
fetch_loops = 3
batch_concurrency = 4
prefetch = 8
publish_concurrency = 32
first_poll = "200ms"
longest_poll = "2s"
claim_check = { container = "large-bodies", max_bytes = "4MiB", orphans_after = "60d" }
foreign_text = "base64"
error_texts = "redact"
dead_letter_lease = "1m"
request_timeout = "10s"

[transports.clinic]
url = "azurequeue:"
account = "https://clinic.queue.core.windows.net"
credential = "client-secret"
tenant_id = "t"
client_id = "c"
client_secret = "env:TOKEN"
token_file = "/run/token"

[transports.ward]
url = "azurequeue:"
account = "https://ward.queue.core.windows.net"
sas = "env:SAS"

[transports.archive]
url = "postgres://localhost:5432/archive"
user = "bezoar"
password = "env:TOKEN"
schema = "bezoar"
migrate = true
transaction_pooling = false
max_connections = 10
connect_timeout = "10s"
statement_timeout = "30s"
poll = "1s"
tls_ca = "/etc/bezoar/ca.pem"

[[queue]]
name = "inbox"

[[queue]]
name = "hospital/old"
watch = "count"
dead_letter_exchange = "old.dlx"
dead_letter_key = "failed"
dead_letter_queue = "old.dlq"

[[route]]
name = "results"
from = "results"
to = "https://example.org/results?code=1"
timeout = "45s"
concurrency = 4
rate = "100/s"
immediate_retries = 2
retry = "webhook"
max_retry_after = "10m"
lease = "1m"
max_deliveries = 3
secret = ["env:SIGNING", "env:SIGNING"]
headers = { Authorization = "file:/run/bearer", X-Tenant = "lab" }
breaker = { failures = 10, pause = "1s", max_pause = "30s" }
paused = true

[[route]]
name = "orders"
from = "orders"
to = "http://10.1.2.3:8080/"
retry.preset = "jobs"
retry.max_retries = 7
retry.first = "250ms"
retry.multiplier = 3
retry.max = "1h30m"
retry.jitter = 0
ack = "hl7"

[[route]]
name = "blood"
from = "hospital/blood"
to = "https://example.org/blood"
dead_letter = "reject"
tls_ca = "file:/etc/bezoar/tls.pem"
tls_certificate = "file:/etc/bezoar/tls.pem"
tls_key = "file:/etc/bezoar/tls.pem"
timeout = "45s"

[[poison_retry]]
queue = "lab/results-poison"
to = "https://example.org/results"
ack = "hl7"
every = "1m"
batch = 32
batches = 4
max_attempts = 5
base = 3
jitter = true
jitter_most = 0.5
invisibility = "10m"
timeout = "20s"
dead_letter = "lab/results-given-up"
retry_count_field = "attempts"
correlation_id_field = "trace"
body_field = "hl7"
secret = "env:SIGNING"
headers = { X-Tenant = "lab" }
tls_ca = "file:/etc/bezoar/tls.pem"
tls_certificate = "file:/etc/bezoar/tls.pem"
tls_key = "file:/etc/bezoar/tls.pem"

[network]
allow = ["10.0.0.0/8"]
deny = ["10.66.0.0/16", "fd00::/8"]
private = false
only_listed = false

[[token]]
name = "oncall"
role = "operator"
secret = "env:TOKEN"
queues = ["results", "inbox"]

[dead_letters]
keep = "90d"
warn = "14d"
editable = ["results"]
approval = true

[log]
format = "json"
level = "debug"
filter = "info,bezoar=trace"

[telemetry]
otlp_endpoint = "http://127.0.0.1:4318"
service_name = "gateway"
traces = false
metrics = false
metrics_access = "open"
correlation = false
"#;

#[test]
fn the_example_of_the_design_loads_without_a_warning() {
    let loaded = loaded(DESIGN);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let config = loaded.config;
    assert_eq!(config.routes[0].retry, RetryPolicy::jobs());
    assert_eq!(config.tokens[0].role, Role::Operator);
    assert_eq!(config.server, Config::default().server);
    assert_eq!(config.store, Config::default().store);
    assert!(config.queues.is_empty());
}

#[test]
fn without_a_configuration_there_is_loopback_a_store_and_a_queue() {
    let config = Config::default();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8420");
    assert_eq!(config.server.max_body_bytes, 16 * 1024 * 1024);
    assert_eq!(config.server.drain, Duration::from_secs(30));
    assert_eq!(config.store.url(), "sqlite:bezoar-data/bezoar.db");
    let queues: Vec<_> = config.all_queues().iter().map(ToString::to_string).collect();
    assert_eq!(queues, ["default"]);
    assert!(config.routes.is_empty() && config.tokens.is_empty());
    assert_eq!(loaded("[log]\nlevel = 'info'").config, config);
}

#[test]
fn everything_that_can_be_set_is_set() {
    let loaded = loaded(EVERYTHING);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let config = &loaded.config;
    let [results, orders, blood] = config.routes.as_slice() else { panic!("{config:?}") };
    assert_eq!(blood.dead_letter, Some(DeadLetterMode::Reject));
    let (hospital, there) = config.broker(&blood.from).unwrap();
    assert_eq!(there.as_str(), "blood");
    let TransportSettings::RabbitMq(hospital) = &hospital.settings else { panic!("{hospital:?}") };
    let url = "amqps://lab:0123456789abcdefghij@one:5671,two:5671/lab";
    assert_eq!(hospital.url.reveal(), url);
    let management = hospital.management_url.as_ref().map(Secret::reveal);
    assert_eq!(management, Some("https://lab:0123456789abcdefghij@one:15671"));
    assert_eq!(hospital.max_prefetch_bytes, 64 * 1024 * 1024);
    assert_eq!(config.watch(&config.queues[1].name), Watch::Count);
    assert_eq!(config.watch(&blood.from), Watch::Take);
    assert_eq!(results.retry, RetryPolicy::webhook());
    assert_eq!(results.rate.unwrap().to_string(), "100/s");
    assert_eq!(results.signing_secrets().len(), 2);
    assert_eq!(results.breaker.unwrap().failures.get(), 10);
    assert!(format!("{:?}", results.extra_headers()).contains("x-tenant"));
    let backoff = Backoff::Exponential { first: Duration::from_millis(250), multiplier: 3.0 };
    let expected = RetryPolicy::new(7, backoff, Duration::from_secs(5_400), Jitter::None).unwrap();
    assert_eq!(orders.retry, expected);
    assert_eq!((orders.ack, blood.ack), (Some(AckFormat::Hl7), None));
    assert_eq!((config.log.format, config.log.level), (LogFormat::Json, LogLevel::Debug));
    assert_eq!(config.log.directives(), "info,bezoar=trace");
    assert!(!config.telemetry.traces && !config.telemetry.metrics);
    assert_eq!(config.all_queues().len(), 6, "with the poison queue that is worked on");
}

/// So that a key that is in the table and read by nobody is noticed, and the reverse.
#[test]
fn every_key_except_tables_is_read_and_shown() {
    let loaded = loaded(EVERYTHING);
    let shown: Vec<_> = show(&loaded).into_iter().map(|setting| setting.key).collect();
    // A store has the keys of a file or those of a database.
    let of_database = |key: &Key| key.parent() == "store" && key.transport.is_some();
    for key in keys().iter().filter(|key| !of_database(key)) {
        let parent = |other: &Key| other.parent().trim_end_matches("[]").trim_end_matches(".*");
        let leaf = keys().iter().all(|other| parent(other) != key.path);
        let one = |index: usize| key.path.replace("[]", &format!("[{index}]"));
        let found = |path: String| shown.iter().any(|shown| shown.starts_with(&path));
        let names: &[&str] = match key.transport {
            Some("RabbitMQ") => &["hospital"],
            Some("PostgreSQL") => &["archive"],
            _ => &["lab", "clinic", "ward"],
        };
        let found = names.iter().any(|name| (0..3).any(|at| found(one(at).replace('*', name))));
        assert!(!leaf || found, "{}", key.path);
    }
}

#[test]
fn values_are_shown_with_their_origin() {
    let loaded = loaded(DESIGN);
    let lines = show_text(&loaded);
    let line = |key: &str| {
        let line = lines.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("server.listen"), "server.listen = 127.0.0.1:8420 # bezoar.toml:3");
    assert_eq!(line("server.drain"), "server.drain = 30s # default");
    assert_eq!(line("token[0].secret"), "token[0].secret = *** # bezoar.toml:20");
    assert_eq!(line("route[0].retry.first"), "route[0].retry.first = 1s # bezoar.toml:15");
    let json = serde_json::to_value(show(&loaded)).unwrap();
    let expected = serde_json::json!(
        { "key": "server.listen", "value": "127.0.0.1:8420", "origin": "bezoar.toml:3" }
    );
    assert_eq!(json[0], expected);
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let text = r#"
[server]
listen = "localhost:8420"
max_bdy = "16MiB"

[store]
url = "mysql://user:pass@host/db"

[[route]]
name = "a b"
from = "results"
timeout = 30
retry = "job"

[[route]]
name = "b"
from = "b"
to = "http://user:pass@host/"
lease = "1.5s"
paused = false

[[token]]
name = "t"
role = "root"
secret = "env:NOT_THERE"
"#;
    let found = problems(text);
    let expected = [
        r#"bezoar.toml:3:10: server.listen is "localhost:8420", which is not a valid address and port; use "127.0.0.1:8420" for this machine only, "0.0.0.0:8420" for all networks"#,
        "bezoar.toml:4:1: server.max_bdy is an unknown key; did you mean max_body?",
        "bezoar.toml:7:7: store.url has an unknown scheme; use sqlite:PATH, for example sqlite:bezoar-data/bezoar.db, or postgres://USER@HOST/DATABASE",
        r#"bezoar.toml:9:1: route[0].to is missing; set a URL such as "https://example.org/results" or "mllp://example.org:2575""#,
        r#"bezoar.toml:10:8: route[0].name is "a b", which is not a valid name; use 1 to 64 letters, digits, `-`, `_` and `.`"#,
        r#"bezoar.toml:12:11: route[0].timeout is a whole number; use "30s" for seconds or "30ms" for milliseconds"#,
        r#"bezoar.toml:13:9: route[0].retry is "job"; did you mean "jobs"?"#,
        r#"bezoar.toml:18:6: route[1].to contains credentials; use an authorization header instead; remove them and set headers = { Authorization = "env:NAME" }"#,
        r#"bezoar.toml:19:9: route[1].lease is "1.5s", which is not a valid duration; use a form such as "30s", "5m", "1h30m" or "250ms""#,
        r#"bezoar.toml:24:8: token[0].role is "root"; expected "sender", "viewer", "operator" or "admin""#,
        "bezoar.toml:25:10: token[0].secret refers to env:NOT_THERE, which is not set; set it in the gateway's environment",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn contradictions_within_a_route_are_rejected() {
    let route = "[[route]]\nname = 'a'\nfrom = 'a'\nto = 'http://h/'\n";
    for (line, part) in [
        ("retry.first = '1m'", "route[0].retry.first is 1m, more than max (30s)"),
        ("breaker.pause = '2m'", "route[0].breaker.pause is 2m, more than max_pause (15s)"),
        ("secret = 'env:TOKEN'", "route[0].secret does not start with whsec_"),
        ("headers = { X-A = 'a', x-a = 'b' }", "route[0].headers.x-a is set twice"),
        ("headers = { Host = '' }", "route[0].headers.Host is empty"),
        ("headers = { Content-Length = '1' }", "content-length cannot be set"),
        ("rate = '0/s'", "route[0].rate is \"0/s\", which is not a valid rate"),
        ("concurrency = 0", "route[0].concurrency is 0; set a whole number from 1 to 10000"),
        (
            "max_deliveries = 99999999999999999999999",
            "route[0].max_deliveries is 9223372036854775807",
        ),
        ("retry.multiplier = nan", "route[0].retry.multiplier is NaN"),
        ("retry = 1979-05-27", "route[0].retry is a date or time"),
    ] {
        let found = problems(&format!("{route}{line}"));
        assert!(found.len() == 1 && found[0].contains(part), "{line}: {found:#?}");
        assert!(found[0].starts_with("bezoar.toml:5:"), "{}", found[0]);
    }
}

#[test]
fn a_route_by_mllp_has_nothing_of_http() {
    let route = "[[route]]\nname = 'a'\nfrom = 'a'\nto = 'mllp://127.0.0.1:2575'\n";
    for (line, part) in [
        ("secret = 'env:SIGNING'", "route[0].secret has no effect with mllp://"),
        ("headers = { X-A = 'a' }", "route[0].headers has no effect with mllp://"),
        ("max_retry_after = '1m'", "route[0].max_retry_after has no effect with mllp://"),
        ("ack = 'xml'", "route[0].ack is \"xml\"; expected \"hl7\""),
    ] {
        let found = problems(&format!("{route}{line}"));
        assert!(found.len() == 1 && found[0].contains(part), "{line}: {found:#?}");
        assert!(found[0].starts_with("bezoar.toml:5:"), "{}", found[0]);
    }
    let config = loaded(&format!("{route}ack = 'hl7'")).config;
    assert!(config.routes[0].to.is_mllp());
}

#[test]
fn literal_secrets_give_a_warning() {
    let text = "[[token]]\nname = 'a'\nrole = 'admin'\nsecret = '0123456789abcdef'\n\
                [[route]]\nname = 'a'\nfrom = 'a'\nto = 'http://h/'\nheaders.Authorization = 'Basic abc'";
    assert_eq!(
        warnings(text),
        [
            "bezoar.toml:9:25: route[0].headers.Authorization is a secret in plain text; \
             use env:NAME or file:PATH instead",
            "bezoar.toml:4:10: token[0].secret is a secret in plain text; \
             use env:NAME or file:PATH instead",
        ]
    );
}

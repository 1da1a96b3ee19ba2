//! What does not go together.

use super::*;
use crate::config::contradictions;

fn route(name: &str, more: &str) -> String {
    format!("[[route]]\nname = '{name}'\nfrom = '{name}'\nto = 'http://127.0.0.1:3000/'\n{more}\n")
}

fn token(name: &str, secret: &str) -> String {
    format!("[[token]]\nname = '{name}'\nrole = 'admin'\nsecret = '{secret}'\n")
}

#[track_caller]
fn refused(text: &str, part: &str) {
    let found = problems(text);
    assert!(found.len() == 1 && found[0].contains(part), "{found:#?}");
    assert!(found[0].starts_with("bezoar.toml:"), "{}", found[0]);
}

#[track_caller]
fn warned(text: &str, part: &str) {
    let found = warnings(text);
    assert!(found.len() == 1 && found[0].contains(part), "{found:#?}");
    assert_eq!(contradictions(&loaded(text).config).len(), 1);
}

#[test]
fn names_and_queues_are_not_shared() {
    let twice = [route("a", ""), route("b", "").replace("name = 'b'", "name = 'a'")].concat();
    refused(&twice, "route[1].name is a, the same as route[0].name");
    let shared = [route("a", ""), route("b", "").replace("from = 'b'", "from = 'a'")].concat();
    refused(&shared, "route[1].from is a, which is the queue of both route a and route b");
    refused(
        "[[queue]]\nname = 'a'\n[[queue]]\nname = 'a'",
        "queue[1].name is a, which is already defined",
    );
    let tokens = [token("a", "env:TOKEN"), token("a", "env:OTHER_TOKEN")].concat();
    refused(&tokens, "token[1].name is a, the same as token[0].name");
}

#[test]
fn a_reachable_gateway_needs_strong_tokens() {
    let open = "[server]\nlisten = '0.0.0.0:8420'\n";
    refused(
        open,
        "server.listen is 0.0.0.0:8420, which is reachable from other machines, but no token is configured",
    );
    assert_eq!(warnings(&format!("{open}{}", token("a", "env:TOKEN"))), [""; 0]);
    refused(&token("a", "env:WEAK"), "token[0].secret has fewer than 16 characters");
    let tokens = [token("a", "env:TOKEN"), token("b", "env:TOKEN")].concat();
    refused(&tokens, "token[1].secret is the same as the secret of token a");
    // A token that is wrong is not also missing.
    refused(
        &format!("{open}{}", token("a", "env:NOT_THERE")),
        "token[0].secret refers to env:NOT_THERE",
    );
}

#[test]
fn positions_hold_when_an_earlier_element_is_refused() {
    let text = ["[[route]]\nname = 'x'\n".to_owned(), route("a", ""), route("a", "")].concat();
    let found = problems(&text);
    assert!(
        found.iter().any(|line| line.starts_with("bezoar.toml:9:8: route[2].name is a")),
        "{found:#?}"
    );
}

#[test]
fn risky_times_give_a_warning() {
    warned(
        &route("a", "lease = '2s'"),
        "route[0].lease is 2s, which may expire during a short pause",
    );
    warned(&route("a", "timeout = '1m'"), "route[0].timeout is 1m, longer than server.drain (30s)");
    warned(&route("a", "retry = { max = '30d', first = '10d' }"), "route[0].retry may wait 33d");
    assert_eq!(
        warnings(&route("a", "lease = '3s'\ntimeout = '30s'")),
        [""; 0],
        "timeout ≥ lease is fine"
    );
}

#[test]
fn a_route_to_ourselves_is_worth_a_warning() {
    let to = |listen: &str, to: &str| {
        let route = route("a", "").replace("http://127.0.0.1:3000/", to);
        let token = token("a", "env:TOKEN");
        warnings(&format!(
            "[server]\nlisten = '{listen}'\n[network]\nprivate = true\n{route}{token}"
        ))
    };
    for (listen, url, loops) in [
        ("127.0.0.1:8420", "http://127.0.0.1:8420/v1/x", true),
        ("127.0.0.1:8420", "http://localhost:8420/", true),
        ("0.0.0.0:8420", "http://localhost:8420/", true),
        ("[::]:8420", "http://[::1]:8420/", true),
        ("127.0.0.1:80", "http://127.0.0.1/", true),
        ("127.0.0.1:443", "https://127.0.0.1/", true),
        ("127.0.0.1:8420", "http://127.0.0.1:8421/", false),
        ("127.0.0.1:8420", "http://10.0.0.1:8420/", false),
        ("127.0.0.1:8420", "http://example.org:8420/", false),
    ] {
        let found = to(listen, url);
        assert_eq!(
            found.iter().any(|line| line.contains("this looks like a loop")),
            loops,
            "{url} {found:?}"
        );
    }
}

#[test]
fn an_endpoint_that_may_not_be_dialled_is_refused_at_once() {
    let open = format!("[server]\nlisten = '0.0.0.0:8420'\n{}", token("a", "env:TOKEN"));
    let to = |url: &str| route("a", "").replace("http://127.0.0.1:3000/", url);
    for url in ["http://127.0.0.1:3000/", "http://localhost/", "http://10.0.0.1/", "http://[::1]/"]
    {
        refused(&format!("{open}{}", to(url)), "which [network] does not allow");
        assert_eq!(warnings(&format!("{open}{}[network]\nprivate = true", to(url))), [""; 0]);
        assert_eq!(warnings(&to(url)), [""; 0], "on loopback");
    }
    for url in ["http://1.1.1.1/", "http://example.org/"] {
        assert_eq!(warnings(&format!("{open}{}", to(url))), [""; 0]);
    }
    let allowed = "[network]\nallow = ['10.0.0.0/8']";
    assert_eq!(warnings(&format!("{open}{}{allowed}", to("http://10.0.0.1/"))), [""; 0]);
    let denied = "[network]\ndeny = ['1.1.1.1']";
    refused(&format!("{}{denied}", to("http://1.1.1.1/")), "does not allow");
    let listed = "[network]\nonly_listed = true";
    refused(&format!("{}{listed}", to("http://1.1.1.1/")), "does not allow");
}

#[test]
fn lists_and_limits_that_do_not_go_together() {
    warned(
        "[network]\nallow = ['10.1.0.0/16']\ndeny = ['10.0.0.0/8']",
        "network.allow contains 10.1.0.0/16, which network.deny denies with 10.0.0.0/8",
    );
    let many = [route("a", "concurrency = 6000"), route("b", "concurrency = 6000")].concat();
    warned(&many, "brings the total of all routes to 12000 concurrent deliveries");
    warned("[store]\nmax_size = '20MiB'", "store.max_size is 20MiB, barely enough for one body");
    let limited = token("a", "env:TOKEN") + "queues = ['gone', 'default']";
    warned(&limited, "token[0].queues contains gone, but there is no such queue");
}

#[test]
fn queues_of_brokers_need_their_broker() {
    let hospital = "[transports.hospital]\nurl = 'amqp://localhost'\n";
    let from = |queue: &str| route("a", "").replace("from = 'a'", &format!("from = '{queue}'"));
    assert!(warnings(&[hospital, &from("hospital/results")].concat()).is_empty());
    refused(
        &from("hospital/results"),
        "route[0].from is hospital/results, but there is no transport hospital; \
         add [transports.hospital] with its url",
    );
    let misspelt = [hospital, "[[queue]]\nname = 'hospitl/x'"].concat();
    refused(&misspelt, "there is no transport hospitl; did you mean hospital?");
    // Together with everything else that is wrong with the route.
    let found = problems(&from("nowhere/results").replace("http:", "gopher:"));
    assert!(found.len() == 2 && found[0].contains("there is no transport nowhere"), "{found:#?}");
    let broken = hospital.replace("amqp:", "http:");
    refused(
        &[broken, from("hospital/results")].concat(),
        "transports.hospital.url has an unsupported scheme",
    );
}

#[test]
fn broker_settings_are_only_for_queues_of_brokers() {
    refused(
        &route("a", "dead_letter = 'reject'"),
        "route[0].dead_letter applies only to queues of brokers",
    );
    refused(
        "[[queue]]\nname = 'a'\nwatch = 'count'",
        "queue[0].watch applies only to queues of brokers",
    );
}

#[test]
fn certificates_of_endpoints_are_pem_and_for_tls() {
    let https = |more: &str| route("a", more).replace("http:", "https:");
    let pem = "'file:/etc/bezoar/tls.pem'";
    assert!(warnings(&https(&format!("tls_ca = {pem}"))).is_empty());
    refused(&route("a", &format!("tls_ca = {pem}")), "route[0].tls_ca has no effect without TLS");
    refused(&https(&format!("tls_certificate = {pem}")), "set both tls_certificate and tls_key");
    refused(
        &https("tls_ca = 'env:TOKEN'"),
        "route[0].tls_ca refers to env:TOKEN, which is not PEM",
    );
}

#[test]
fn a_certificate_goes_with_its_key() {
    let text = "[transports.a]\nurl = 'amqps://localhost'\ntls_certificate = 'a.pem'";
    refused(text, "set both tls_certificate and tls_key");
}

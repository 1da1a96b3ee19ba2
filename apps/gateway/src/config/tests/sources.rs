//! Which source wins.

use super::*;
use crate::config::Config;

const FILE: &str = "[server]\nlisten = '127.0.0.1:1'\n[[route]]\nname = 'a'\nfrom = 'a'\n\
                    to = 'http://h/'\nretry = 'jobs'\nheaders.X-Tenant = 'a'\n";

fn read(environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Loaded, Vec<String>> {
    let (environment, flags) = (pairs(environment), pairs(flags));
    let loaded = load(&Sources { environment, flags, ..sources(FILE) }, &resolve);
    loaded.map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
}

fn listen(environment: &[(&str, &str)], flags: &[(&str, &str)]) -> (u16, String) {
    let loaded = read(environment, flags).unwrap();
    (loaded.config.server.listen.port(), loaded.origin("server.listen").unwrap().to_string())
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let variable = [("BEZOAR_SERVER__LISTEN", "127.0.0.1:2")];
    let flag = [("server.listen", "127.0.0.1:3")];
    assert_eq!(listen(&[], &[]), (1, "bezoar.toml:2".to_owned()));
    assert_eq!(listen(&variable, &[]), (2, "env BEZOAR_SERVER__LISTEN".to_owned()));
    assert_eq!(listen(&variable, &flag), (3, "flag server.listen".to_owned()));
    assert_eq!(listen(&[("BEZOAR_SERVER__LISTEN", "")], &[]).0, 1, "empty is not set");
}

#[test]
fn the_environment_changes_and_adds_elements_of_lists() {
    let loaded = read(
        &[
            ("BEZOAR_ROUTE__0__TO", "http://other/"),
            ("BEZOAR_ROUTE__0__CONCURRENCY", "3"),
            ("BEZOAR_ROUTE__0__PAUSED", "true"),
            ("BEZOAR_ROUTE__0__RETRY__MAX_RETRIES", "9"),
            ("BEZOAR_ROUTE__0__HEADERS__X_TENANT", "b"),
            ("BEZOAR_ROUTE__1__NAME", "b"),
            ("BEZOAR_ROUTE__1__FROM", "b"),
            ("BEZOAR_ROUTE__1__TO", "http://b/"),
            ("BEZOAR_NETWORK__ALLOW", "10.0.0.0/8,::1"),
            ("BEZOAR_TOKEN__0__NAME", "t"),
            ("BEZOAR_TOKEN__0__ROLE", "admin"),
            ("BEZOAR_TOKEN__0__SECRET", "0123456789abcdef"),
            ("BEZOAR_TOKEN", "a client's"),
            ("BEZOAR_URL", "a client's"),
        ],
        &[("route[1].timeout", "5s")],
    );
    let loaded = loaded.unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let Config { routes, network, tokens, .. } = &loaded.config;
    assert_eq!(routes[0].to.origin(), "http://other");
    assert_eq!((routes[0].concurrency, routes[0].paused), (3, true));
    assert_eq!(routes[0].retry.max_retries(), 9, "a variable changes one key of a preset");
    assert_eq!((routes[1].name.as_str(), routes[1].timeout.as_secs()), ("b", 5));
    assert_eq!((network.allow.len(), tokens.len()), (2, 1));
    assert_eq!(loaded.origin("route[0].name").unwrap().to_string(), "bezoar.toml:4");
    assert_eq!(loaded.origin("route[1].timeout").unwrap().to_string(), "flag route[1].timeout");
}

#[test]
fn problems_name_the_variable_or_flag() {
    let found = read(
        &[
            ("BEZOAR_SERVER__LISTN", "x"),
            ("BEZOAR_SERVER__MAX_IN_FLIGHT", "many"),
            ("BEZOAR_ROUTE__5__TO", "http://h/"),
            ("BEZOAR_ROUTE__0", "x"),
            ("BEZOAR_SERVER__LISTEN__PORT", "1"),
            ("BEZOAR_ROUTE__1__NAME", "b"),
            ("BEZOAR___X", "1"),
        ],
        &[("server.drain", "soon"), ("x y", "x")],
    );
    let found = found.unwrap_err();
    for (origin, part) in [
        ("env BEZOAR_SERVER__LISTN", "did you mean BEZOAR_SERVER__LISTEN?"),
        ("env BEZOAR_SERVER__MAX_IN_FLIGHT", "is \"many\"; set a whole number from 1 to 65536"),
        ("env BEZOAR_ROUTE__5__TO", "route[5].to has the index 5, but the list has 2 elements"),
        ("env BEZOAR_ROUTE__0", "route[0] is a table and cannot be set directly"),
        ("env BEZOAR_SERVER__LISTEN__PORT", "server.listen.port is inside a string"),
        ("env BEZOAR_ROUTE__1__NAME", "route[1].from is missing"),
        ("env BEZOAR_ROUTE__1__NAME", "route[1].to is missing"),
        ("env BEZOAR___X", "is an unknown key"),
        ("flag server.drain", "server.drain is \"soon\", which is not a valid duration"),
        ("flag x y", "is an unknown key"),
    ] {
        let says = |line: &&String| line.starts_with(origin) && line.contains(part);
        assert!(found.iter().any(|line| says(&line)), "{origin} {part}: {found:#?}");
    }
    assert_eq!(found.len(), 10, "{found:#?}");
}

#[test]
fn a_secret_in_a_flag_is_worth_a_warning() {
    let token = [
        ("token[0].name", "t"),
        ("token[0].role", "admin"),
        ("token[0].secret", "0123456789abcdef"),
    ];
    let loaded = read(&[], &token).unwrap();
    assert!(loaded.warnings[0].to_string().contains("other processes can see"));
}

//! What a reload changes.

use std::collections::BTreeSet;

use super::{examples::EVERYTHING, *};
use crate::config::{Applies, Config, Key, Reload, keys};

fn config(text: &str) -> Config {
    loaded(text).config
}

fn route(name: &str, more: &str) -> String {
    format!("[[route]]\nname = '{name}'\nfrom = '{name}'\nto = 'http://h/'\n{more}\n")
}

#[track_caller]
fn check(old: &str, new: &str) -> Reload {
    config(old).differences(&config(new))
}

fn names(list: &[crate::config::Name]) -> Vec<&str> {
    list.iter().map(crate::config::Name::as_str).collect()
}

#[test]
fn nothing_differs_from_itself() {
    let reload = check(EVERYTHING, EVERYTHING);
    assert!(reload.is_empty());
    assert_eq!(names(&reload.routes_unchanged), ["results", "orders", "blood"]);
}

#[test]
fn routes_are_told_apart_by_name() {
    let old = [route("same", ""), route("changed", ""), route("gone", "")].concat();
    let new = [route("new", ""), route("changed", "timeout = '5s'"), route("same", "")].concat();
    let reload = check(&old, &new);
    assert_eq!(names(&reload.routes_added), ["new"]);
    assert_eq!(names(&reload.routes_removed), ["gone"]);
    assert_eq!(names(&reload.routes_changed), ["changed"]);
    assert_eq!(names(&reload.routes_unchanged), ["same"]);
    assert_eq!(reload.queues_added[0].as_str(), "new");
    assert!(reload.restart.is_empty() && !reload.is_empty());
}

#[test]
fn a_changed_secret_changes_its_route_or_token() {
    let secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let old = route("a", "secret = 'env:SIGNING'\nheaders.x = 'a'");
    for new in ["headers.x = 'a'".to_owned(), format!("secret = '{secret}'\nheaders.x = 'a'")] {
        assert_eq!(names(&check(&old, &route("a", &new)).routes_changed), ["a"]);
    }
    let other = route("a", "secret = 'env:SIGNING'\nheaders.x = 'b'");
    assert_eq!(names(&check(&old, &other).routes_changed), ["a"]);
    let other = EVERYTHING.replace("env:TOKEN", "env:OTHER_TOKEN");
    assert!(check(EVERYTHING, &other).tokens_changed);
}

#[test]
fn reloads_and_restarts_follow_the_table_of_keys() {
    let (old, new) = (config(""), config(EVERYTHING));
    let reload = old.differences(&new);
    let restart = keys().iter().filter(|key| key.applies == Applies::Restart);
    // Of a broker or a store it is not said which of its keys.
    let path = |key: &'static Key| match key.parent() {
        parent if parent.starts_with("transports.*") => "transports",
        "store" => "store",
        _ => key.path,
    };
    let paths: BTreeSet<_> = restart.map(path).collect();
    assert_eq!(reload.restart.iter().copied().collect::<BTreeSet<_>>(), paths);
    assert!(reload.tokens_changed && reload.network_changed && reload.log_changed);
    let after = old.reloaded(new.clone());
    assert_eq!(
        (&after.server, &after.store, &after.telemetry),
        (&old.server, &old.store, &old.telemetry)
    );
    assert_eq!((&after.routes, &after.tokens), (&new.routes, &new.tokens));
    assert_eq!(after.differences(&new).restart, reload.restart, "still to come");
    assert!(Reload { restart: vec![], ..after.differences(&new) }.is_empty(), "all else is done");
}

const POISON: &str = "[transports.lab]\nurl = 'azurequeue:'\nconnection_string = 'UseDevelopmentStorage=true'\n\
    [[poison_retry]]\nqueue = 'lab/a-poison'\nto = 'http://h/a'\n\
    [[poison_retry]]\nqueue = 'lab/b-poison'\nto = 'http://h/b'\n";

#[test]
fn a_changed_poison_retry_takes_effect_without_a_restart() {
    let (old, new) = (config(POISON), config(&(POISON.to_owned() + "base = 3\nevery = '1m'\n")));
    let reload = old.differences(&new);
    assert_eq!(reload.poison_retries_changed, [new.poison_retries[1].queue.clone()]);
    assert!(reload.restart.is_empty() && !reload.is_empty());
    let after = old.reloaded(new.clone());
    assert_eq!(after, new);
    assert!(after.differences(&new).is_empty());
}

#[test]
fn a_new_poison_queue_or_queue_for_its_dead_letters_needs_a_restart() {
    let old = config(POISON);
    let added = POISON.to_owned() + "[[poison_retry]]\nqueue = 'lab/c-poison'\nto = 'http://h/c'\n";
    let added = config(&added);
    let both = ["poison_retry[].queue", "poison_retry[].dead_letter"];
    let reload = old.differences(&added);
    assert_eq!((reload.restart.as_slice(), reload.poison_retries_changed.len()), (&both[..], 0));
    assert_eq!(added.differences(&old).restart, both, "nor is one stopped");
    let moved = config(&(POISON.to_owned() + "dead_letter = 'lab/elsewhere'\nbatch = 5\n"));
    let (reload, after) = (old.differences(&moved), old.reloaded(moved.clone()));
    assert_eq!((reload.restart.as_slice(), reload.poison_retries_changed.len()), (&both[1..], 1));
    assert_eq!(after.poison_retries[1].options.batch, 5);
    assert_eq!(after.poison_retries[1].dead_letter, old.poison_retries[1].dead_letter);
}

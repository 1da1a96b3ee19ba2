//! A preset sets several keys, and each key that is written wins over it.

use std::time::Duration;

use bezoar::{Jitter, RetryPolicy};

use super::{load_text, loaded};
use crate::config::RouteConfig;

fn route(more: &str) -> RouteConfig {
    let text = format!("[[route]]\nname = 'r'\nfrom = 'a'\nto = 'http://h/'\n{more}");
    loaded(&text).config.routes.swap_remove(0)
}

#[test]
fn a_preset_sets_the_retries_at_once_too() {
    let route = |more: &str| {
        let route = route(more);
        (route.immediate_retries, route.retry.max_retries())
    };
    assert_eq!(route(""), (0, 3));
    assert_eq!(route("retry = 'broker'"), (3, 0));
    assert_eq!(route("retry = 'broker'\nimmediate_retries = 1"), (1, 0));
    assert_eq!(route("retry = 'broker'\nimmediate_retries = 0"), (0, 0));
    assert_eq!(route("retry = { preset = 'broker', max_retries = 2 }"), (3, 2));
    assert_eq!(route("retry = { max_retries = 2 }"), (0, 2));
}

#[test]
fn keys_change_a_preset_and_leave_the_rest_of_it() {
    for (name, policy) in RetryPolicy::PRESETS {
        assert_eq!(route(&format!("retry = '{name}'")).retry, policy);
        assert_eq!(route(&format!("retry = {{ preset = '{name}' }}")).retry, policy);
        let more = route(&format!("retry = {{ preset = '{name}', max_retries = 7 }}")).retry;
        assert_eq!(more, policy.with_max_retries(7));
    }
    let poison =
        route("retry = { preset = 'poison_queue', first = '9m', multiplier = 3, jitter = 0.5 }");
    let minutes: Vec<_> = poison.retry.delays().map(|delay| delay.as_secs() / 60).collect();
    assert_eq!(minutes, [9, 27], "base 3");
    assert_eq!(poison.retry.jitter(), Jitter::Lengthening(0.5), "it still only lengthens");
    assert_eq!(route("retry = 'outbox'").retry.cap(), Duration::from_secs(3_600));
}

#[test]
fn an_unknown_preset_is_rejected_everywhere() {
    for retry in ["'job'", "{ preset = 'job' }"] {
        let text = format!("[[route]]\nname = 'r'\nfrom = 'a'\nto = 'http://h/'\nretry = {retry}");
        let problems = load_text(&text).unwrap_err().to_string();
        assert!(problems.contains(r#"did you mean "jobs"?"#), "{problems}");
    }
}

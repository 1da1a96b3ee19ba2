//! `bezoar pause`, `bezoar resume` and `bezoar whoami`

use serde_json::json;

use crate::{
    bezoar,
    fake::{Gateway, problem},
    run,
};

#[test]
fn a_route_is_paused_and_resumed_by_its_name() {
    for (command, paused, words) in [
        ("pause", true, "route a/b paused; its messages wait\n"),
        ("resume", false, "route a/b resumed\n"),
    ] {
        let gateway = Gateway::answering(json!({ "route": "a/b", "paused": paused }));
        let ended = run(bezoar(&gateway).args([command, "a/b"]));
        assert_eq!((ended.code, ended.data.as_str(), ended.words.as_str()), (0, "", words));
        let asked = &gateway.asked()[0];
        let target = format!("/v1/routes/a%2Fb/{command}");
        assert_eq!((asked.method.as_str(), &asked.target), ("POST", &target));
        let ended = run(bezoar(&gateway).args([command, "a/b", "--json"]));
        assert_eq!(ended.data, format!("{{\"paused\":{paused},\"route\":\"a/b\"}}\n"));
    }
}

#[test]
fn an_unknown_route_is_an_error_that_lists_the_known_ones() {
    let gateway = Gateway::start(|_, _| {
        problem(404, "not-found", "there is no such route; there are: results")
    });
    let ended = run(bezoar(&gateway).args(["pause", "result"]));
    assert_eq!(
        (ended.code, ended.words.as_str()),
        (1, "bezoar: there is no such route; there are: results\n")
    );
}

#[test]
fn whoami_shows_what_the_token_may_do() {
    let gateway = Gateway::answering(json!({
        "name": "oncall", "role": "viewer", "queues": null, "version": "0.1.0",
        "permissions": ["view_metadata"],
    }));
    let ended = run(bezoar(&gateway).arg("whoami"));
    for part in ["role     viewer", "queues   all", "may      see counts", "may not  send messages"]
    {
        assert!(ended.data.contains(part), "{part:?} is missing in:\n{}", ended.data);
    }
    let ended = run(bezoar(&gateway).args(["whoami", "--json"]));
    assert!(ended.data.contains(r#""role":"viewer""#), "{ended:?}");
}

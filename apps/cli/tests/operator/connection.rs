//! Which gateway, as whom, and what is said when it does not work.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::{
    alone, bezoar,
    fake::{Answer, Gateway, problem},
    run,
};

/// A port on which nobody listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn without_a_gateway_the_remedy_is_named() {
    let url = nowhere();
    for command in [vec!["queues"], vec!["send", "q", "--body", "x"], vec!["whoami"]] {
        let ended = run(alone().args(["--url", &url]).args(command));
        let expected = format!(
            "cannot connect to a gateway at {url} (from --url); start one with `bezoar up`, or pass --url"
        );
        assert!(ended.words.contains(&expected), "{ended:?}");
        assert_eq!((ended.code, ended.data.as_str()), (1, ""));
    }
}

#[test]
fn an_error_says_where_the_url_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let (url, listen) = (nowhere(), nowhere().replace("http://", ""));
    let queues = |variable: Option<(&str, &str)>| {
        let mut command = alone();
        command.current_dir(&folder).envs(variable).arg("queues");
        run(&mut command).words
    };
    let from = |url: &str, source: &str| format!("at {url} ({source}); start one");
    let variable = queues(Some(("BEZOAR_URL", &url)));
    assert!(variable.contains(&from(&url, "from BEZOAR_URL")), "{variable}");
    let variable = queues(Some(("BEZOAR_SERVER__LISTEN", &listen)));
    assert!(variable.contains(&from(&format!("http://{listen}"), "from BEZOAR_SERVER__LISTEN")));
    let configuration = format!("server.listen = \"{listen}\"\n");
    std::fs::write(folder.path().join("bezoar.toml"), configuration).unwrap();
    let file = queues(None);
    assert!(file.contains(&from(&format!("http://{listen}"), "from bezoar.toml")), "{file}");
}

#[test]
fn health_says_what_it_found() {
    let gateway = Gateway::answering(json!({}));
    let ended = run(bezoar(&gateway).arg("health"));
    let said = format!("the gateway at {} is ready and accepts messages\n", gateway.url());
    assert_eq!((ended.code, ended.data.as_str(), ended.words), (0, "", said));
    let gateway = Gateway::start(|_, _| problem(503, "not-ready", "the store is full"));
    let ended = run(bezoar(&gateway).arg("health"));
    let said =
        format!("bezoar: the gateway at {} is not ready: the store is full\n", gateway.url());
    assert_eq!((ended.code, ended.words), (1, said));
}

#[test]
fn a_refusal_is_shown_in_the_gateways_words() {
    for (status, code, detail) in [
        (403, "forbidden", "this needs the role operator"),
        (404, "not-found", "there is no queue \"q\"; there are: default"),
        (400, "bad-request", "the parameters are queue, limit"),
    ] {
        let gateway = Gateway::start(move |_, _| problem(status, code, detail));
        let ended = run(bezoar(&gateway).arg("queues"));
        assert_eq!((ended.code, ended.words), (1, format!("bezoar: {detail}\n")));
    }
}

#[test]
fn without_a_token_the_error_says_where_to_get_one() {
    let gateway = Gateway::start(|_, _| problem(401, "unauthorized", "send a token"));
    let ended = run(alone().args(["queues", "--url", &gateway.url()]));
    assert!(ended.words.contains("send a token; set BEZOAR_TOKEN"), "{ended:?}");
    assert!(ended.words.contains("(no bezoar-data/token here)"), "{ended:?}");
    assert_eq!(gateway.asked()[0].header("authorization"), "");
}

#[test]
fn a_token_that_the_gateway_does_not_know_is_named_by_its_source() {
    let gateway = Gateway::start(|_, _| problem(401, "unauthorized", "unknown token"));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("bezoar-data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("token"), "bzr_found\n").unwrap();
    std::fs::set_permissions(data.join("token"), PermissionsExt::from_mode(0o600)).unwrap();
    let said =
        |source: &str| format!("bezoar: the gateway does not know the token from {source}\n");
    let ended = run(bezoar(&gateway).arg("queues"));
    assert_eq!((ended.code, ended.words), (1, said("BEZOAR_TOKEN")));
    let ended = run(bezoar(&gateway).args(["queues", "--token", "bzr_flag"]));
    assert_eq!((ended.code, ended.words), (1, said("--token")));
    let ended = run(alone().current_dir(&folder).args(["queues", "--url", &gateway.url()]));
    assert_eq!((ended.code, ended.words), (1, said("bezoar-data/token")));
}

#[test]
fn another_server_is_not_taken_for_a_gateway() {
    let gateway = Gateway::start(|_, _| Answer::Text(404, "<html>CANARY"));
    let ended = run(bezoar(&gateway).arg("queues"));
    assert!(ended.words.contains("unexpected response 404 Not Found"), "{ended:?}");
    for (status, body) in [(200, "<html>CANARY"), (200, "{\"CANARY\":7}"), (200, "")] {
        let gateway = Gateway::start(move |_, _| Answer::Text(status, body));
        let ended = run(bezoar(&gateway).arg("queues"));
        assert!(ended.words.contains("cannot parse the gateway's response"), "{ended:?}");
        assert_eq!(ended.code, 1);
    }
}

#[test]
fn a_broken_connection_is_an_error_and_not_a_panic() {
    let gateway = Gateway::start(|_, _| Answer::Hangup);
    let ended = run(bezoar(&gateway).arg("queues"));
    assert!(ended.words.contains("closed the connection without a response"), "{ended:?}");
    assert_eq!(ended.code, 1);
}

#[test]
fn the_token_of_a_gateway_in_this_folder_is_found() {
    let gateway = Gateway::answering(json!([]));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("bezoar-data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("token"), "bzr_found\n").unwrap();
    std::fs::set_permissions(data.join("token"), PermissionsExt::from_mode(0o600)).unwrap();

    let found = run(alone().current_dir(&folder).args(["queues", "--url", &gateway.url()]));
    assert_eq!((found.code, found.words.contains("chmod")), (0, false), "{found:?}");
    let empty =
        bezoar(&gateway).current_dir(&folder).env("BEZOAR_TOKEN", "").arg("queues").output();
    assert!(empty.unwrap().status.success());
    run(bezoar(&gateway).current_dir(&folder).env("BEZOAR_TOKEN", "bzr_given").arg("queues"));
    run(bezoar(&gateway).current_dir(&folder).args(["queues", "--token", "bzr_flag"]));
    let shown: Vec<_> = gateway.asked().iter().map(|asked| asked.header("authorization")).collect();
    assert_eq!(
        shown,
        ["Bearer bzr_found", "Bearer bzr_found", "Bearer bzr_given", "Bearer bzr_flag"]
    );

    std::fs::set_permissions(data.join("token"), PermissionsExt::from_mode(0o644)).unwrap();
    let open = run(alone().current_dir(&folder).args(["queues", "--url", &gateway.url()]));
    assert!(open.words.contains("chmod 600 bezoar-data/token"), "{open:?}");
}

#[test]
fn address_and_token_are_those_of_the_configuration_in_this_folder() {
    let gateway = Gateway::answering(json!([]));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("lab");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("token"), "bzr_lab\n").unwrap();
    std::fs::set_permissions(data.join("token"), PermissionsExt::from_mode(0o600)).unwrap();
    let listen = gateway.url().replace("http://", "");
    // A broker's password that only the gateway knows is no reason to fail.
    let configuration = format!(
        "server.listen = \"{listen}\"\nstore.url = \"sqlite:lab/lab.db\"\n\
         transports.hospital.url = \"env:HOSPITAL_AMQP\"\n"
    );
    std::fs::write(folder.path().join("bezoar.toml"), configuration).unwrap();

    let found = run(alone().current_dir(&folder).arg("queues"));
    assert_eq!(found.code, 0, "{found:?}");
    assert_eq!(gateway.asked()[0].header("authorization"), "Bearer bzr_lab");
}

#[test]
fn a_configuration_that_does_not_say_where_the_gateway_is_is_an_error() {
    let gateway = Gateway::answering(json!([]));
    let folder = tempfile::tempdir().unwrap();
    for broken in ["server.listen = \"nowhere\"", "server = [", "store.url = \"lab.db\""] {
        std::fs::write(folder.path().join("bezoar.toml"), broken).unwrap();
        let ended = run(alone().current_dir(&folder).arg("queues"));
        assert_eq!((ended.code, ended.words.contains("bezoar.toml")), (78, true), "{ended:?}");
        let told = run(alone().current_dir(&folder).args(["queues", "--url", &gateway.url()]));
        assert_eq!(told.code, 0, "{told:?}");
    }
    let elsewhere = "server.listen = \"192.0.2.1:8420\"\nstore.url = \"sqlite:lab.db\"";
    std::fs::write(folder.path().join("bezoar.toml"), elsewhere).unwrap();
    std::fs::write(folder.path().join("token"), "bzr_lab\n").unwrap();
    run(alone().current_dir(&folder).args(["queues", "--url", &gateway.url()]));
    let shown = |asked: &crate::fake::Asked| asked.header("authorization") == "Bearer bzr_lab";
    assert!(!gateway.asked().iter().any(shown), "no gateway listens there with a token of its own");
}

#[test]
fn an_invalid_url_is_a_usage_error_and_not_repeated() {
    for url in ["localhost:8420", "http://ada:CANARY@localhost", ""] {
        let ended = run(alone().args(["queues", "--url", url]));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.words.contains("--url"), "{ended:?}");
    }
}

#[test]
fn only_commands_that_talk_to_a_gateway_offer_its_flags() {
    for command in
        ["demo", "up", "check", "provision", "config show", "config schema", "completions"]
    {
        let help = run(alone().args(command.split(' ')).arg("--help"));
        assert_eq!((help.code, help.data.contains("--url")), (0, false), "{command}: {help:?}");
        assert!(!help.data.contains("--token"), "{command}: {help:?}");
        assert!(!help.data.contains("BEZOAR_CONFIG="), "{command}: {help:?}");
    }
    for command in ["queues", "dead list", "bench"] {
        let help = run(alone().args(command.split(' ')).arg("--help"));
        assert!(help.data.contains("--url") && help.data.contains("--token"), "{command}");
    }
    let health = run(alone().args(["health", "--help"])).data;
    assert!(health.contains("--url") && !health.contains("--token"), "it needs none: {health}");
    // A script may set them for every command.
    let accepted = run(alone().args(["config", "schema", "--url", "http://localhost:1"]));
    assert_eq!(accepted.code, 0, "{accepted:?}");
}

#[test]
fn help_shows_no_secret_from_the_environment() {
    let gateway = Gateway::answering(json!([]));
    let ended = run(bezoar(&gateway).args(["queues", "--help"]));
    assert!(ended.data.contains("BEZOAR_TOKEN"), "{ended:?}");
}

//! `bezoar top`, and what other commands do at a terminal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Answer, Gateway, accept_all},
    run,
    terminal::Terminal,
};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

fn queues() -> Value {
    let route = json!({ "name": "results", "to": "http://h/", "paused": null, "breaker": "closed", "per_second": 2.0 });
    json!([{ "queue": "lab", "ready": 3, "delayed": 0, "in_flight": 0, "dead": 7, "route": route }])
}

#[test]
fn without_a_terminal_the_error_names_the_alternative() {
    let gateway = Gateway::answering(json!([]));
    let ended = run(bezoar(&gateway).arg("top"));
    assert_eq!(ended.code, 1);
    assert_eq!(
        ended.words,
        "bezoar: top requires a terminal; use `bezoar queues --json` instead\n"
    );
    assert!(gateway.asked().is_empty());
}

#[test]
fn a_route_is_paused_by_a_key_and_the_terminal_given_back() {
    let gateway = Gateway::start(|_, asked| match asked.target.as_str() {
        "/v1/queues" => Answer::Json(200, queues()),
        _ => Answer::Json(200, json!({ "route": "results", "paused": true })),
    });
    let mut terminal = Terminal::start(&gateway, "top");
    terminal.wait_for("running");
    terminal.press("p");
    terminal.wait_for("Pause results?");
    assert!(gateway.asked().iter().all(|asked| asked.method == "GET"), "it asks first");
    terminal.press("y");
    terminal.wait_for("results is paused");
    assert!(gateway.asked().iter().any(|asked| asked.target == "/v1/routes/results/pause"));
    terminal.press("q");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    assert!(screen.find(ENTER) < screen.rfind(LEAVE), "{screen:?}");
}

#[test]
fn a_gateway_that_goes_away_is_waited_for_and_ctrl_c_ends_it() {
    let is_away = Arc::new(AtomicBool::new(false));
    let gateway = Gateway::start({
        let is_away = is_away.clone();
        move |_, _| match is_away.load(Ordering::SeqCst) {
            true => Answer::Hangup,
            false => Answer::Json(200, queues()),
        }
    });
    let mut terminal = Terminal::start(&gateway, "top");
    terminal.wait_for("lab");
    is_away.store(true, Ordering::SeqCst);
    terminal.wait_for("unreachable, retrying");
    is_away.store(false, Ordering::SeqCst);
    wait_until(|| gateway.asked().len() > 5);
    terminal.press("\u{3}");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    assert!(screen.contains(LEAVE), "{screen:?}");
}

#[test]
fn dead_letters_are_red_at_a_terminal_unless_colours_are_refused() {
    let gateway = Gateway::answering(queues());
    let (_, screen) = Terminal::start(&gateway, "queues").end();
    assert!(screen.contains("\u{1b}[31m7"), "{screen:?}");
    let (_, screen) = Terminal::start_with(&gateway, "queues", ("NO_COLOR", "1")).end();
    assert!(screen.contains("lab") && !screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn json_is_indented_at_a_terminal() {
    let gateway = Gateway::answering(queues());
    let (_, screen) = Terminal::start(&gateway, "queues --json").end();
    assert!(screen.contains("    \"dead\": 7,"), "{screen:?}");
}

#[test]
fn many_lines_show_a_bar_and_no_ids_at_a_terminal() {
    let gateway = Gateway::start(|_, asked| accept_all(asked));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "CANARY\n".repeat(3_000)).unwrap();
    let arguments = format!("send q --lines --id import '{}'", file.path().display());
    let (code, screen) = Terminal::start(&gateway, &arguments).end();
    assert_eq!(code, 0, "{screen:?}");
    assert!(screen.contains(" left") && screen.contains("accepted 3,000 messages"), "{screen:?}");
    assert!(!screen.contains("import-") && !screen.contains("CANARY"), "{screen:?}");
}

#[test]
fn at_a_terminal_a_missing_body_is_a_usage_error() {
    let gateway = Gateway::start(|_, asked| accept_all(asked));
    let (code, screen) = Terminal::start(&gateway, "send q").end();
    assert_eq!(code, 2);
    assert!(screen.contains("nothing to send: pass a file"), "{screen:?}");
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited for nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
}

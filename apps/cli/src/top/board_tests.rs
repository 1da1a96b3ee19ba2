//! Keys and updates, without a terminal.

use serde_json::{Value, json};

use super::*;

fn snapshot(queues: Value) -> Snapshot {
    Snapshot { queues: serde_json::from_value(queues).unwrap(), ..Snapshot::default() }
}

fn board(queues: Value) -> Board {
    let mut board = Board::new("http://h:1".to_owned());
    board.learn(snapshot(queues), Instant::now());
    board
}

fn press(board: &mut Board, code: KeyCode) -> Option<KeyAction> {
    board.press(&Event::Key(code.into()), Instant::now())
}

fn lab(paused: Value) -> Value {
    let route =
        json!({ "name": "results", "to": "http://h/", "paused": paused, "per_second": 1.25 });
    json!({ "queue": "lab", "route": route })
}

#[test]
fn q_escape_and_ctrl_c_quit() {
    let mut board = board(json!([]));
    assert_eq!(press(&mut board, KeyCode::Char('q')), Some(KeyAction::Quit));
    assert_eq!(press(&mut board, KeyCode::Esc), Some(KeyAction::Quit));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(board.press(&Event::Key(ctrl_c), Instant::now()), Some(KeyAction::Quit));
    assert_eq!(press(&mut board, KeyCode::Char('c')), None);
}

#[test]
fn p_pauses_what_runs_and_resumes_what_is_paused() {
    let command = |command| Some(KeyAction::Command(command, "results".to_owned()));
    let mut running = board(json!([lab(json!(null))]));
    assert_eq!(press(&mut running, KeyCode::Char('p')), None, "it asks first");
    assert!(running.question().unwrap().starts_with("Pause results?"));
    assert_eq!(press(&mut running, KeyCode::Char('y')), command(RouteCommand::Pause));
    assert_eq!(running.question(), None);
    for key in [KeyCode::Enter, KeyCode::Char('n'), KeyCode::Esc, KeyCode::Char('q')] {
        press(&mut running, KeyCode::Char('p'));
        assert_eq!((press(&mut running, key), running.question()), (None, None), "{key:?}");
    }
    let mut paused = board(json!([lab(json!("paused by an operator"))]));
    assert_eq!(press(&mut paused, KeyCode::Char('p')), command(RouteCommand::Resume));
    let mut without = board(json!([{ "queue": "default" }]));
    assert_eq!(press(&mut without, KeyCode::Char('p')), None);
    assert_eq!(without.notice(Instant::now()), Some("default has no route to pause"));
    assert_eq!(without.notice(Instant::now() + NOTICE), None);
    assert_eq!(press(&mut board(json!([])), KeyCode::Char('p')), None);
}

#[test]
fn the_selection_stays_with_its_queue_and_within_the_list() {
    let mut board = board(json!([{ "queue": "a" }, { "queue": "b" }]));
    for (key, selected) in [
        (KeyCode::Up, 0),
        (KeyCode::Down, 1),
        (KeyCode::Down, 1),
        (KeyCode::Home, 0),
        (KeyCode::End, 1),
    ] {
        press(&mut board, key);
        assert_eq!(board.selected, selected);
    }
    let more = json!([{ "queue": "a" }, { "queue": "aa" }, { "queue": "b" }]);
    board.learn(snapshot(more), Instant::now());
    assert_eq!(board.chosen().unwrap().queue, "b");
    board.learn(snapshot(json!([{ "queue": "a" }])), Instant::now());
    assert_eq!(board.chosen().unwrap().queue, "a");
    board.learn(Snapshot::default(), Instant::now());
    assert!(board.chosen().is_none());
}

#[test]
fn an_unreachable_gateway_keeps_the_data_and_leaves_a_gap_in_the_curve() {
    let mut board = board(json!([lab(json!(null))]));
    let url = "http://h:1".parse().unwrap();
    board.lose(ClientError::Late { url, deadline: std::time::Duration::from_secs(1) });
    assert_eq!(board.problem.as_deref(), Some("unreachable, retrying"));
    assert_eq!(board.samples("lab").collect::<Vec<_>>(), [Some(13), None]);
    board.learn(snapshot(json!([lab(json!(null))])), Instant::now());
    assert_eq!(board.problem, None);
}

#[test]
fn the_history_is_bounded_and_forgets_queues_that_are_gone() {
    let mut board = board(json!([lab(json!(null))]));
    (0..1_000).for_each(|_| board.learn(snapshot(json!([lab(json!(null))])), Instant::now()));
    assert_eq!(board.samples("lab").count(), HISTORY);
    board.learn(Snapshot::default(), Instant::now());
    assert_eq!(board.samples("lab").count(), 0);
}

#[test]
fn the_trend_is_the_change_of_the_last_minute() {
    let waiting = |ready: u64| json!([{ "queue": "lab", "ready": ready, "delayed": 1 }]);
    let mut board = board(waiting(0));
    assert_eq!(board.trend("lab"), Some(0));
    for ready in 1..=100 {
        board.learn(snapshot(waiting(ready)), Instant::now());
    }
    assert_eq!(board.trend("lab"), Some(60));
    board.learn(snapshot(waiting(0)), Instant::now());
    assert_eq!(board.trend("lab"), Some(-41));
    board.learn(snapshot(json!([{ "queue": "lab" }])), Instant::now());
    assert_eq!((board.trend("lab"), board.trend("other")), (None, None));
}

#[test]
fn causes_and_operations_stay_while_the_gateway_does_not_say() {
    let mut board = board(json!([]));
    let (causes, operations) = (Some(vec![Cause::default()]), Some(vec![Operation::default()]));
    board.learn(Snapshot { causes, operations, ..Snapshot::default() }, Instant::now());
    board.learn(Snapshot::default(), Instant::now());
    assert_eq!((board.causes.len(), board.operations.len()), (1, 1));
    let (causes, operations) = (Some(Vec::new()), Some(Vec::new()));
    board.learn(Snapshot { causes, operations, ..Snapshot::default() }, Instant::now());
    assert_eq!((board.causes.len(), board.operations.len()), (0, 0));
}

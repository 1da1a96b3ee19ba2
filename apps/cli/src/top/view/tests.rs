//! What is on the screen.

use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};
use serde_json::json;

use super::*;
use crate::{client::ClientError, route::RouteCommand, top::Snapshot};

fn board() -> Board {
    let mut board = Board::new("http://127.0.0.1:8420".to_owned());
    let route = |paused, breaker| json!({ "name": "results", "to": "http://h/r", "paused": paused, "breaker": breaker, "per_second": 12.5 });
    let queues = json!([
        { "queue": "default", "ready": 0, "delayed": 0, "in_flight": 0, "dead": 0, "route": null },
        { "queue": "lab", "ready": 1234, "delayed": 5, "in_flight": 16, "dead": 7,
          "oldest_ready_seconds": 200.0, "oldest_dead_seconds": 7300.0,
          "route": route(json!(null), json!("open")) },
    ]);
    let queues = serde_json::from_value(queues).unwrap();
    board.learn(Snapshot { queues, ..Snapshot::default() }, Instant::now());
    board
}

/// The same with a cause that grows, and a replay that runs.
fn busy_board() -> Board {
    let mut board = board();
    board.causes = serde_json::from_value(json!([{
        "id": "v1:0123456789abcdef", "title": "http.503 (transient) of lab.result in lab", "state": "open",
        "count": 7, "added_this_hour": 5, "added_last_hour": 2,
    }]))
    .unwrap();
    board.operations = serde_json::from_value(json!([{
        "id": "op_209aaw0b", "kind": "replay", "state": "running", "actor": "ada", "reason": "fixed",
        "total": 10, "processed": 4, "completed": 3, "failed": 1,
    }]))
    .unwrap();
    board
}

#[test]
fn causes_and_running_operations_fit_every_width() {
    for (width, operation, cause) in [
        (
            120,
            "op_209aaw0b  replay  running        10     4          3             1",
            "    7          5          2",
        ),
        (80, "op_209aaw0b", "    7"),
        (60, "op_209aaw0b", "    7"),
    ] {
        let lines = lines(&drawn(&busy_board(), width, 24, Instant::now()));
        let after = |title: &str| {
            let place = lines.iter().position(|line| line.contains(title)).expect(title);
            lines[place + 2].clone()
        };
        assert!(after(" operations ").starts_with(operation), "{width}: {}", after(" operations "));
        let shown = after(" causes of dead letters ");
        assert!(
            shown.starts_with(cause) && shown.contains("v1:0123456789abcdef"),
            "{width}: {shown}"
        );
        assert!(shown.contains("http.503 (transient)"), "{width}: {shown}");
        assert!(lines.iter().all(|line| line.chars().count() <= width.into()));
    }
}

#[test]
fn a_low_terminal_keeps_the_queues() {
    let lines = lines(&drawn(&busy_board(), 120, 14, Instant::now()));
    assert!(lines[3].starts_with("lab "), "{}", lines[3]);
    assert!(lines.iter().any(|line| line.contains(" operations ")));
    assert!(!lines.iter().any(|line| line.contains(" causes of dead letters ")));
}

fn drawn(board: &Board, width: u16, height: u16, now: Instant) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, board, now)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width);
    let line =
        |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    rows.map(|row| line(row).trim_end().to_owned()).collect()
}

#[test]
fn queues_are_in_a_table_and_the_selected_one_has_a_curve() {
    let mut board = board();
    board.selected = 1;
    let lines = lines(&drawn(&board, 140, 14, Instant::now()));
    let expected = [
        "bezoar top  http://127.0.0.1:8420",
        "queue    ready  delayed  in flight  dead  oldest ready  oldest dead  per second  route                 state         trend  throughput",
        "default      0        0          0     0             –            –           –  –                     no route          0",
        "lab      1,234        5         16     7           3 m          2 h        12.5  results → http://h/r  breaker open      0             █",
    ];
    assert_eq!(&lines[..4], expected);
    assert!(lines[7].starts_with("┌ lab: 12.5/s, results → http://h/r ─"), "{}", lines[7]);
    assert!(lines[8].ends_with("█│"), "{}", lines[8]);
    assert_eq!(lines[13], "q quit   ↑ ↓ select   p pause or resume the route");
}

#[test]
fn a_narrow_terminal_shows_the_most_important_columns() {
    let lines = lines(&drawn(&board(), 80, 14, Instant::now()));
    let expected = [
        "queue    ready  in flight  dead  oldest dead  per second  state         trend",
        "default      0          0     0            –           –  no route          0",
        "lab      1,234         16     7          2 h        12.5  breaker open      0",
    ];
    assert_eq!(&lines[1..4], expected);
}

#[test]
fn dead_letters_and_an_open_breaker_are_red() {
    let buffer = drawn(&board(), 130, 14, Instant::now());
    let style_of = |text: &str| {
        let width = usize::from(buffer.area.width);
        let row = &buffer.content[3 * width..4 * width];
        let place = (0..width).find(|at| {
            row[*at..].iter().map(|cell| cell.symbol()).collect::<String>().starts_with(text)
        });
        row[place.unwrap()].fg
    };
    assert_eq!(style_of("7 "), Color::Red);
    assert_eq!(style_of("breaker"), Color::Red);
    assert_eq!(style_of("1,234"), Color::Reset);
}

#[test]
fn an_unreachable_gateway_is_shown_with_the_age_of_the_data() {
    let mut board = board();
    let url = "http://h:1".parse().unwrap();
    board.lose(ClientError::Late { url, deadline: Duration::from_secs(1) });
    let lines = lines(&drawn(&board, 130, 14, Instant::now() + Duration::from_secs(75)));
    let expected = "bezoar top  http://127.0.0.1:8420  unreachable, retrying  (as of 1 m ago)";
    assert_eq!(lines[0], expected);
    assert!(lines[3].starts_with("lab "), "{}", lines[3]);
}

#[test]
fn no_terminal_size_panics() {
    let mut board = board();
    board.command_done("results", RouteCommand::Pause, None, Instant::now());
    board.causes = busy_board().causes;
    board.operations = busy_board().operations;
    for (width, height) in [(1, 1), (2, 50), (200, 2), (7, 7), (500, 100)] {
        drawn(&board, width, height, Instant::now());
    }
    drawn(&Board::new(String::new()), 80, 24, Instant::now());
}

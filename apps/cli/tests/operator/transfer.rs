//! `bezoar dead export` and `bezoar dead import`

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use crate::{
    bezoar,
    fake::{Answer, Ending, Gateway, problem},
    run, run_revealing,
    terminal::Terminal,
};

const EXPORT: [&str; 6] = ["dead", "export", "--queue", "lab", "--reason", "move"];

fn lines(number: usize) -> String {
    (0..number).map(|number| format!("{{\"stamp\":\"{number}\",\"body\":\"CANARY\"}}\n")).collect()
}

#[test]
fn lines_are_exported_as_they_come() {
    let gateway = Gateway::start(|_, _| Answer::Lines(lines(1_000), Ending::Whole));
    let ended = run_revealing(bezoar(&gateway).args(EXPORT));
    assert_eq!((ended.code, ended.words.as_str()), (0, "exported 1,000 dead letters\n"));
    assert_eq!(ended.data, lines(1_000));
    let expected = json!({ "reason": "move", "filter": { "queue": "lab" } });
    assert_eq!(gateway.asked()[0].json(), expected);
}

#[test]
fn an_export_has_no_limit_but_a_private_file() {
    let long = "x".repeat(1024 * 1024) + "\n";
    let gateway = Gateway::start(move |_, _| Answer::Lines(long.repeat(40), Ending::Whole));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dead.ndjson");
    let ended = run(bezoar(&gateway).args(EXPORT).arg("--output").arg(&file));
    assert_eq!((ended.code, ended.words.as_str()), (0, "exported 40 dead letters\n"));
    assert_eq!(fs::metadata(&file).unwrap().len(), 40 * (1024 * 1024 + 1));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let ended = run(bezoar(&gateway).args(EXPORT).arg("--output").arg(&file));
    assert!(ended.words.contains("exists; choose another name"), "{ended:?}");
    assert_eq!(gateway.asked().len(), 1);
}

#[test]
fn an_export_that_breaks_off_is_an_error_and_leaves_no_file() {
    for (text, ending) in [(lines(500), Ending::BreaksOff), ("{\"half".to_owned(), Ending::Whole)] {
        let gateway = Gateway::start(move |_, _| Answer::Lines(text.clone(), ending));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dead.ndjson");
        let ended = run(bezoar(&gateway).args(EXPORT).arg("--output").arg(&file));
        assert_eq!(ended.code, 1);
        assert!(ended.words.contains("the export is incomplete"), "{ended:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let ended = run_revealing(bezoar(&gateway).args(EXPORT));
        assert_eq!(ended.code, 1);
    }
}

#[test]
fn an_export_is_not_written_to_a_terminal() {
    let gateway = Gateway::start(|_, _| Answer::Lines(lines(1), Ending::Whole));
    let (code, screen) = Terminal::start(&gateway, "dead export --reason r").end();
    assert_eq!(code, 1);
    assert!(screen.contains("--output FILE") && gateway.asked().is_empty(), "{screen:?}");
}

#[test]
fn a_refused_export_is_reported() {
    let gateway = Gateway::start(|_, _| problem(403, "forbidden", "this needs the role admin"));
    let ended = run(bezoar(&gateway).args(EXPORT));
    assert_eq!(ended.code, 1);
    assert!(ended.words.ends_with("this needs the role admin\n"), "{ended:?}");
}

#[test]
fn lines_are_imported_in_chunks_and_sent_again_if_need_be() {
    let gateway = Gateway::start(|before, asked| match before {
        1 => Answer::Busy,
        2 => Answer::Hangup,
        _ => {
            let lines = asked.body.iter().filter(|byte| **byte == b'\n').count();
            Answer::Json(200, json!({ "imported": lines - 1, "known_already": 1 }))
        }
    });
    let line = format!("\"{}\"\n", "x".repeat(1024 * 1024));
    let arguments = ["dead", "import", "-", "--reason", "moved here & there"];
    let ended = run(bezoar(&gateway).args(arguments).write_stdin(line.repeat(20)));
    let words = "imported 17 dead letters, skipped 3 that are already here\n";
    assert_eq!((ended.code, ended.words.as_str()), (0, words));
    let asked = gateway.asked();
    assert!(asked.iter().all(|asked| asked.body.len() < 16 * 1024 * 1024));
    assert_eq!(asked[0].target, "/v1/imports?reason=moved%20here%20%26%20there");
    assert_eq!(asked[0].header("content-type"), "application/x-ndjson");
    let ended = run(bezoar(&gateway).args(arguments).arg("--json").write_stdin("1\n2\n"));
    assert_eq!(ended.data, "{\"imported\":1,\"known_already\":1}\n");
}

#[test]
fn an_invalid_line_is_named_and_the_progress_before_it_reported() {
    let gateway = Gateway::start(|before, _| match before {
        0 => Answer::Json(200, json!({ "imported": 7, "known_already": 0 })),
        _ => Answer::Json(
            400,
            json!({
                "type": "urn:bezoar:problem:bad-request", "line": 2,
                "detail": "line 2: the body is not valid base64; nothing was imported",
            }),
        ),
    });
    let line = format!("\"{}\"\n", "x".repeat(1024 * 1024));
    let ended = run(bezoar(&gateway)
        .args(["dead", "import", "-", "--reason", "r"])
        .write_stdin(line.repeat(14)));
    let expected = "before the error: imported 7 dead letters\nbezoar: stdin:9: the body is not valid base64\n";
    assert_eq!((ended.code, ended.words.as_str()), (1, expected));
    let ended = run(bezoar(&gateway).args(["dead", "import", "/nowhere", "--reason", "r"]));
    assert!(ended.words.starts_with("bezoar: cannot open /nowhere"), "{ended:?}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bezoar.toml"), "[server]\n").unwrap();
    let import = ["dead", "import", "bezoar.toml", "--reason", "r"];
    let ended = run(bezoar(&gateway).current_dir(&folder).args(import));
    let expected = "bezoar: bezoar.toml:2: the body is not valid base64; nothing was imported\n";
    assert_eq!((ended.code, ended.words.as_str()), (1, expected));
}

#[test]
fn an_import_with_a_wrong_token_blames_no_line() {
    let gateway = Gateway::start(|_, _| problem(401, "unauthorized", "unknown token"));
    let import = ["dead", "import", "-", "--reason", "r"];
    let ended = run(bezoar(&gateway).args(import).write_stdin("1\n2\n"));
    let expected = "bezoar: the gateway does not know the token from BEZOAR_TOKEN\n";
    assert_eq!((ended.code, ended.words.as_str()), (1, expected));
}

//! `bezoar dead edit` and `bezoar dead approve`

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Answer, Gateway, problem},
    run,
    terminal::Terminal,
};

fn version(state: &str) -> Value {
    json!({
        "id": "dl_hzswwxaa", "queue": "lab", "message_id": "m-1", "type": "lab.result", "correlation_id": null,
        "reason": "3 retries used up", "error": { "kind": "transient", "code": "http.503" }, "cause": "v1:0123456789abcdef", "attempts": 4,
        "replays": 0, "body_bytes": 7, "dead_lettered_at": "2001-09-09T01:47:40Z", "state": state,
        "operation": null, "edited_from": "dl_e4295pe0",
    })
}

#[test]
fn a_body_and_headers_make_a_new_version() {
    let gateway = Gateway::answering(version("open"));
    let change = ["--body-file", "-", "--header", "ward=CANARY", "--remove-header", "old"];
    let ended = run(bezoar(&gateway)
        .args(["dead", "edit", "dl_e4295pe0", "--reason", "typo"])
        .args(change)
        .write_stdin("CANARY"));
    assert_eq!((ended.code, ended.data.as_str()), (0, "dl_hzswwxaa\n"));
    assert!(
        ended.words.contains("replay it with: bezoar dead replay dl_hzswwxaa --reason TEXT"),
        "{ended:?}"
    );
    let asked = &gateway.asked()[0];
    assert_eq!(asked.target, "/v1/dead-letters/dl_e4295pe0/edits");
    let expected = json!({
        "reason": "typo", "body_base64": "Q0FOQVJZ", "headers": { "ward": "CANARY", "old": null },
    });
    assert_eq!(asked.json(), expected);
}

#[test]
fn a_patch_that_waits_for_approval_says_so() {
    let gateway = Gateway::answering(version("unapproved"));
    let patch = r#"[{"op": "remove", "path": "/a"}]"#;
    let arguments = ["dead", "edit", "dl_e4295pe0", "--reason", "typo", "--patch", "-"];
    let ended = run(bezoar(&gateway).args(arguments).write_stdin(patch));
    assert!(ended.words.contains("bezoar dead approve dl_hzswwxaa --reason TEXT"), "{ended:?}");
    assert_eq!(gateway.asked()[0].json()["patch"], json!([{ "op": "remove", "path": "/a" }]));
    let ended = run(bezoar(&gateway).args(arguments).write_stdin("CANARY"));
    assert_eq!(ended.code, 1);
    assert!(ended.words.contains("--patch is not JSON"), "{ended:?}");
}

#[test]
fn without_a_terminal_there_is_no_editor() {
    let gateway = Gateway::answering(version("open"));
    let ended = run(bezoar(&gateway).env("EDITOR", "true").args([
        "dead",
        "edit",
        "dl_e4295pe0",
        "--reason",
        "typo",
    ]));
    assert_eq!(ended.code, 2);
    assert!(ended.words.contains("--body-file, --patch, --header"), "{ended:?}");
    let header = ["dead", "edit", "dl_e4295pe0", "--reason", "typo", "--header", "CANARY"];
    assert_eq!(run(bezoar(&gateway).args(header)).code, 2);
    assert!(gateway.asked().is_empty());
}

/// A program that notes the mode of the file and changes it.
fn editor(folder: &Path, change: &str) -> String {
    let path = folder.join("editor");
    let notes = folder.join("notes");
    let script = format!(
        "#!/bin/sh\nstat -c '%a %n' \"$2\" > '{0}'\nstat -c %a \"$(dirname \"$2\")\" >> '{0}'\n{change}\n",
        notes.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    format!("{} --wait", path.display())
}

fn revealing(then: fn() -> Answer) -> Gateway {
    Gateway::start(move |_, asked| match asked.target.ends_with("/reveal") {
        true => Answer::Json(
            200,
            json!({ "id": "dl_e4295pe0", "content_type": "application/json", "body_base64": "eyJhIjoxfQ==" }),
        ),
        false => then(),
    })
}

#[test]
fn at_a_terminal_the_body_is_opened_in_an_editor_and_leaves_no_trace() {
    let gateway = revealing(|| Answer::Json(200, version("open")));
    let folder = tempfile::tempdir().unwrap();
    let editor = editor(folder.path(), r#"printf '{"a":2}\n' > "$2"; cp "$2" "$2~""#);
    let command = "dead edit dl_e4295pe0 --reason typo";
    let (code, screen) = Terminal::start_with(&gateway, command, ("VISUAL", &editor)).end();
    assert_eq!(code, 0, "{screen:?}");
    let asked = gateway.asked();
    assert_eq!(asked[0].json(), json!({ "reason": "typo", "what": ["body"] }));
    assert_eq!(asked[1].json()["body_base64"], json!("eyJhIjoyfQ=="), "without an added end");
    let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
    let (file, mode) = notes.trim().split_once('\n').unwrap();
    let file = file.strip_prefix("600 ").unwrap();
    assert!(file.ends_with("dead-letter-dl_e4295pe0.json") && mode == "700", "{notes}");
    assert!(!Path::new(file).parent().unwrap().exists(), "{file} is still there");
}

#[test]
fn neither_an_unchanged_body_nor_a_failing_editor_makes_a_version() {
    for (change, code, words) in
        [("true", 0, "no changes"), ("echo x > \"$2\"; exit 3", 1, "nothing was sent")]
    {
        let gateway = revealing(|| unreachable!());
        let folder = tempfile::tempdir().unwrap();
        let editor = editor(folder.path(), change);
        let command = "dead edit dl_e4295pe0 --reason typo";
        let (ended, screen) = Terminal::start_with(&gateway, command, ("VISUAL", &editor)).end();
        assert_eq!(ended, code, "{screen:?}");
        assert!(screen.contains(words), "{screen:?}");
        assert_eq!(gateway.asked().len(), 1);
    }
}

#[test]
fn work_that_is_refused_is_kept() {
    let gateway = revealing(|| problem(403, "forbidden", "edits are off for this queue"));
    let folder = tempfile::tempdir().unwrap();
    let editor = editor(folder.path(), "echo mine > \"$2\"");
    let command = "dead edit dl_e4295pe0 --reason typo";
    let (code, screen) = Terminal::start_with(&gateway, command, ("VISUAL", &editor)).end();
    assert_eq!(code, 1);
    assert!(screen.contains("edits are off for this queue"), "{screen:?}");
    let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
    let file = notes.lines().next().unwrap().strip_prefix("600 ").unwrap();
    assert!(screen.contains(file), "{screen:?}");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine\n");
    fs::remove_dir_all(Path::new(file).parent().unwrap()).unwrap();
}

#[test]
fn a_version_is_approved() {
    let gateway = Gateway::answering(version("open"));
    let ended =
        run(bezoar(&gateway).args(["dead", "approve", "dl_hzswwxaa", "--reason", "checked"]));
    assert!(ended.words.starts_with("approved dead letter dl_hzswwxaa; replay it"), "{ended:?}");
    let asked = &gateway.asked()[0];
    assert_eq!(asked.target, "/v1/dead-letters/dl_hzswwxaa/approve");
    assert_eq!(asked.json(), json!({ "reason": "checked" }));
    let gateway = Gateway::start(|_, _| problem(409, "conflict", "somebody else must approve it"));
    let ended =
        run(bezoar(&gateway).args(["dead", "approve", "dl_hzswwxaa", "--reason", "checked"]));
    assert_eq!((ended.code, ended.words.as_str()), (1, "bezoar: somebody else must approve it\n"));
}

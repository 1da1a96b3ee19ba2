//! `bezoar send` of one message.

use crate::{
    bezoar,
    fake::{Answer, Gateway, accept_all, problem},
    run,
};

fn accepting() -> Gateway {
    Gateway::start(|_, asked| accept_all(asked))
}

#[test]
fn a_message_has_its_envelope_in_headers() {
    let gateway = accepting();
    let ended = run(bezoar(&gateway).args([
        "send",
        "hospital/größe",
        "--body",
        r#"{"a":1}"#,
        "--type",
        "lab.result",
        "--correlation-id",
        "c-7",
        "--id",
        "m-1",
        "--header",
        "Source=ward=3",
        "--header",
        "x=",
        "--delay",
        "1m30s",
    ]));
    assert_eq!((ended.code, ended.data.as_str()), (0, "m-1\n"));
    let asked = &gateway.asked()[0];
    assert_eq!(asked.target, "/v1/queues/hospital%2Fgr%C3%B6%C3%9Fe/messages");
    for (name, expected) in [
        ("bezoar-id", "m-1"),
        ("bezoar-type", "lab.result"),
        ("bezoar-correlation-id", "c-7"),
        ("bezoar-delay", "90000ms"),
        ("bezoar-header-source", "ward=3"),
        ("content-type", "application/json"),
        ("authorization", "Bearer bzr_CANARY"),
    ] {
        assert_eq!(asked.header(name), expected, "{name}");
    }
    assert_eq!(&asked.body[..], br#"{"a":1}"#);
}

#[test]
fn a_body_comes_from_a_file_a_pipe_or_an_argument_as_it_is() {
    let gateway = accepting();
    let bytes = b"\xff\x00 CANARY\r\n\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, bytes).unwrap();
    run(bezoar(&gateway).args(["send", "q"]).arg(file.path()));
    run(bezoar(&gateway).args(["send", "q", "-"]).write_stdin(bytes));
    run(bezoar(&gateway).args(["send", "q"]).write_stdin(bytes));
    assert!(gateway.asked().iter().all(|asked| asked.body[..] == bytes[..]));
    assert!(gateway.asked().iter().all(|asked| asked.header("content-type").is_empty()));
    run(bezoar(&gateway).args(["send", "q", "--body", "", "--content-type", "text/plain"]));
    let last = gateway.asked().pop().unwrap();
    assert_eq!((last.body.len(), last.header("content-type").as_str()), (0, "text/plain"));
    assert_eq!(gateway.asked().len(), 4);
}

#[test]
fn nothing_on_stdin_is_not_sent_by_accident() {
    let gateway = accepting();
    let ended = run(bezoar(&gateway).args(["send", "q"]).write_stdin(""));
    assert!(ended.words.contains("stdin is empty"), "{ended:?}");
    let ended = run(bezoar(&gateway).args(["send", "q", "/nowhere/at-all"]));
    assert!(ended.words.contains("cannot open /nowhere/at-all"), "{ended:?}");
    assert!(gateway.asked().is_empty());
}

#[test]
fn a_message_whose_answer_was_lost_is_sent_again_with_the_same_id() {
    let gateway = Gateway::start(|before, asked| match before {
        0 => Answer::Busy,
        1 => Answer::Hangup,
        2 => problem(503, "outcome-unknown", "send it again"),
        _ => accept_all(asked),
    });
    let ended = run(bezoar(&gateway).args(["send", "q", "--body", "x", "--json"]));
    let ids: Vec<_> = gateway.asked().iter().map(|asked| asked.header("bezoar-id")).collect();
    assert_eq!((ids.len(), ids[0].len()), (4, 36));
    assert!(ids.iter().all(|id| id == &ids[0]), "{ids:?}");
    assert_eq!((ended.code, ended.data), (0, format!("{{\"id\":\"{}\"}}\n", ids[0])));
}

#[test]
fn patience_has_an_end_and_a_refusal_needs_none() {
    let busy = Gateway::start(|_, _| Answer::Busy);
    let ended = run(bezoar(&busy).args(["send", "q", "--body", "CANARY", "--retry-for", "500ms"]));
    assert_eq!((ended.code, ended.words.as_str()), (1, "bezoar: too many at present\n"));
    assert!(busy.asked().len() > 1);
    let refusing =
        Gateway::start(|_, _| problem(413, "too-large", "the body is larger than 1 bytes"));
    let ended = run(bezoar(&refusing).args(["send", "q", "--body", "CANARY"]));
    assert_eq!(
        (ended.code, ended.words.as_str()),
        (1, "bezoar: the body is larger than 1 bytes\n")
    );
    assert_eq!(refusing.asked().len(), 1);
}

#[test]
fn a_usage_error_is_exit_code_2_and_shows_no_value() {
    let gateway = accepting();
    for wrong in [
        &["send"][..],
        &["send", "q", "file", "--body", "CANARY"],
        &["send", "q", "--body", "x", "--header", "CANARY"],
        &["send", "q", "--body", "x", "--header", "k=CANARY\n"],
        &["send", "q", "--body", "x", "--delay", "5"],
        &["send", "", "--body", "x"],
        &["send", "q", "--body", "x", "--id", " m"],
    ] {
        assert_eq!(run(bezoar(&gateway).args(wrong)).code, 2, "{wrong:?}");
    }
    assert!(gateway.asked().is_empty());
}

#[test]
fn with_retry_for_a_gateway_that_starts_later_is_waited_for() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("bezoar"))
        .args(["send", "q", "--body", "x", "--retry-for", "60s", "--token", "t"])
        .args(["--url", &format!("http://{address}")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut words = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut words, &mut said).unwrap();
    assert!(said.contains("cannot connect") && said.contains("retrying for 1 m"), "{said}");
    let gateway = Gateway::start_at(address, |_, asked| accept_all(asked));
    assert!(child.wait().unwrap().success());
    assert_eq!(gateway.asked().len(), 1);
}

//! `bezoar send --lines`

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    TOKEN, bezoar,
    fake::{Answer, Asked, Gateway, accept_all, problem},
    run,
};

fn numbers(count: usize) -> String {
    (1..=count).map(|number| format!("CANARY {number}\n")).collect()
}

/// Ids of all that was sent, by how often.
fn sent(gateway: &Gateway) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    for asked in gateway.asked() {
        let items = if asked.target.ends_with("/batches") {
            asked.items().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
        } else {
            vec![asked.header("bezoar-id")]
        };
        items.into_iter().for_each(|id| *ids.entry(id).or_default() += 1);
    }
    ids
}

#[test]
fn every_line_is_a_message_and_every_id_is_printed_in_order() {
    let gateway = Gateway::start(|_, asked| accept_all(asked));
    let ended = run(bezoar(&gateway)
        .args(["send", "q", "--lines", "--type", "t"])
        .write_stdin(numbers(5_000)));
    let ids: Vec<_> = ended.data.lines().map(str::to_owned).collect();
    assert_eq!((ended.code, ids.len()), (0, 5_000));
    assert!(ended.words.starts_with("accepted 5,000 messages in "), "{}", ended.words);
    assert!(gateway.asked().len() < 500, "{} requests", gateway.asked().len());
    assert!(
        gateway.asked().iter().all(|asked| asked.header("content-type") == "application/x-ndjson")
    );
    assert_eq!(sent(&gateway).into_keys().collect::<BTreeSet<_>>(), ids.into_iter().collect());
}

#[test]
fn lines_that_are_json_go_as_json_and_an_id_makes_a_second_run_harmless() {
    let gateway = Gateway::start(|_, asked| accept_all(asked));
    let input = "{\"a\": 1}\n\nplain\n";
    let arguments = ["send", "q", "--lines", "--id", "import", "--header", "k=v", "--json"];
    let ended = run(bezoar(&gateway).args(arguments).write_stdin(input));
    let expected = "{\"id\":\"import-1\",\"line\":1}\n{\"id\":\"import-3\",\"line\":3}\n";
    assert_eq!(ended.data, expected);
    let expected = [
        json!({ "id": "import-1", "headers": { "k": "v" }, "body": { "a": 1 } }),
        json!({ "id": "import-3", "headers": { "k": "v" }, "body_base64": "cGxhaW4=" }),
    ];
    assert_eq!(gateway.asked()[0].items(), expected);
}

/// Accepts what it is asked the second time; the first time half of it, and drops some requests.
fn moody(before: usize, asked: &Asked) -> Answer {
    if before.is_multiple_of(3) {
        return [Answer::Busy, Answer::Hangup, problem(502, "", "")]
            .into_iter()
            .nth(before % 9 / 3)
            .unwrap();
    }
    let Answer::Json(status, mut body) = accept_all(asked) else { unreachable!() };
    let results = body.get_mut("results").and_then(Value::as_array_mut);
    for result in results.into_iter().flatten().step_by(5) {
        let error = json!({ "code": "store-unavailable", "detail": "later" });
        result["error"] = error;
    }
    Answer::Json(status, body)
}

#[test]
fn temporarily_refused_messages_are_sent_again_with_the_same_ids() {
    let gateway = Gateway::start(moody);
    let ended = run(bezoar(&gateway).args(["send", "q", "--lines"]).write_stdin(numbers(2_000)));
    assert_eq!((ended.code, ended.data.lines().count()), (0, 2_000), "{}", ended.words);
    let sent = sent(&gateway);
    assert_eq!(sent.len(), 2_000);
    assert!(sent.values().any(|times| *times > 1));
}

#[test]
fn refused_lines_are_reported_and_the_others_accepted() {
    let gateway = Gateway::start(|_, asked| {
        let result = |item: &Value| match item["id"].as_str() {
            Some("i-2" | "i-3" | "i-7") => {
                json!({ "id": null, "error": { "code": "bad-request", "detail": "no" } })
            }
            id => json!({ "id": id }),
        };
        Answer::Json(
            202,
            json!({ "results": asked.items().iter().map(result).collect::<Vec<_>>() }),
        )
    });
    let ended =
        run(bezoar(&gateway).args(["send", "q", "--lines", "--id", "i"]).write_stdin(numbers(9)));
    assert_eq!((ended.code, ended.data.as_str()), (1, "i-1\ni-4\ni-5\ni-6\ni-8\ni-9\n"));
    assert!(ended.words.starts_with("accepted 6 messages in "), "{}", ended.words);
    assert!(
        ended.words.ends_with("lines 2–3, 7: no\nbezoar: 3 lines not accepted\n"),
        "{}",
        ended.words
    );
    let ended = run(bezoar(&gateway)
        .args(["send", "q", "--lines", "--id", "i", "--json"])
        .write_stdin(numbers(3)));
    let second = ended.data.lines().nth(1).unwrap();
    assert_eq!(second, r#"{"error":{"code":"bad-request","detail":"no"},"id":"i-2","line":2}"#);
}

#[test]
fn a_batch_that_is_too_large_is_cut_until_it_fits() {
    let gateway = Gateway::start(|_, asked| match asked.body.len() {
        ..=2_000 => accept_all(asked),
        _ => problem(413, "too-large", "the body is larger than 2000 bytes"),
    });
    let input = format!("{}{}\n{}", numbers(300), "x".repeat(1_999), "y".repeat(2_001));
    let ended = run(bezoar(&gateway).args(["send", "q", "--lines"]).write_stdin(input));
    assert_eq!((ended.code, ended.data.lines().count()), (1, 301), "{}", ended.words);
    assert!(
        ended.words.contains("line 302: the body is larger than 2000 bytes"),
        "{}",
        ended.words
    );
}

#[test]
fn a_refusal_of_a_whole_batch_ends_it_and_says_where() {
    let gateway = Gateway::start(|before, asked| match before {
        0 => accept_all(asked),
        _ => problem(403, "forbidden", "this needs the role operator"),
    });
    let ended = run(bezoar(&gateway).args(["send", "q", "--lines"]).write_stdin(numbers(100_000)));
    assert_eq!(ended.code, 1);
    assert!(ended.words.contains("lines from "), "{}", ended.words);
    assert!(
        ended.words.ends_with("not accepted: this needs the role operator\n"),
        "{}",
        ended.words
    );
    assert!(gateway.asked().len() < 10, "{} requests", gateway.asked().len());
}

#[test]
fn a_gateway_that_went_away_for_good_ends_it_too() {
    let gateway = Gateway::start(|before, asked| match before {
        0 => accept_all(asked),
        _ => Answer::Hangup,
    });
    let arguments = ["send", "q", "--lines", "--retry-for", "300ms"];
    let ended = run(bezoar(&gateway).args(arguments).write_stdin(numbers(5_000)));
    assert_eq!(ended.code, 1);
    assert!(ended.words.contains("it may have been accepted"), "{}", ended.words);
}

#[test]
fn piped_lines_are_sent_while_more_are_to_come() {
    let gateway = Gateway::start(|_, asked| accept_all(asked));
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("bezoar"))
        .args(["send", "q", "--lines", "--id", "i", "--url", &gateway.url()])
        .env("BEZOAR_TOKEN", TOKEN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut ids = BufReader::new(output).lines();
    for number in 1..=3 {
        writeln!(input, "line {number}").unwrap();
        assert_eq!(ids.next().unwrap().unwrap(), format!("i-{number}"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_empty_input_is_not_a_failure() {
    let gateway = Gateway::start(|_, asked| accept_all(asked));
    let ended = run(bezoar(&gateway).args(["send", "q", "--lines"]).write_stdin("\n\n"));
    assert_eq!((ended.code, ended.data.as_str()), (0, ""));
    assert!(gateway.asked().is_empty());
}

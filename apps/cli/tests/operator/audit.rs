//! `bezoar audit`

use bezoar::catalogue::{AuditHead, AuditedAction, Verb};
use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Answer, Gateway, problem},
    run,
};

/// A log of so many entries, its head last.
fn log(number: u64) -> (Vec<Value>, AuditHead) {
    let (mut entries, mut head) = (Vec::new(), AuditHead::START);
    for place in 1..=number {
        let action = AuditedAction {
            actor: "ada".to_owned(),
            address: "127.0.0.1".to_owned(),
            verb: Verb::Reveal,
            target: format!("dead letter {place}"),
            reason: "ticket 7".to_owned(),
        };
        let (entry, after) = head.append("2001-09-09T01:46:40.123Z".parse().unwrap(), &action);
        entries.push(json!({
            "number": entry.number, "recorded_at": entry.at.to_string(), "actor": entry.actor,
            "address": entry.address, "verb": entry.verb, "target": entry.target,
            "reason": entry.reason,
            "hash": entry.hash.to_string(),
        }));
        head = after;
    }
    (entries, head)
}

/// Serves pages of a log.
fn gateway(entries: Vec<Value>, head: AuditHead) -> Gateway {
    Gateway::start(move |_, asked| {
        let given = |name: &str| {
            let (_, rest) = asked.target.split_once(&format!("{name}="))?;
            rest.split('&').next()?.parse::<usize>().ok()
        };
        let (after, limit) = (given("after"), given("limit").unwrap());
        let page: Vec<_> = match asked.target.contains("order=oldest_first") {
            true => entries.iter().skip(after.unwrap_or(0)).take(limit).cloned().collect(),
            false => {
                let end = after.map_or(entries.len(), |after| after - 1);
                entries[..end].iter().rev().take(limit).cloned().collect()
            }
        };
        let last = page.last().map(|entry| entry["number"].to_string());
        let next = last.filter(|last| last != "1");
        let head = json!({ "count": head.count, "hash": head.hash.to_string() });
        Answer::Json(200, json!({ "items": page, "next": next, "head": head }))
    })
}

#[test]
fn entries_are_listed_newest_first() {
    let (entries, head) = log(3);
    let gateway = gateway(entries, head);
    let ended = run(bezoar(&gateway).args(["audit", "list", "--limit", "2"]));
    let row = ended.data.lines().nth(1).unwrap();
    let expected =
        "     3  2001-09-09 01:46:40 UTC  ada  127.0.0.1  reveal  dead letter 3  ticket 7";
    assert_eq!(row, expected);
    let words = "3 entries in total\nnext page: bezoar audit list --limit 2 --after 2\n";
    assert_eq!((ended.code, ended.words.as_str()), (0, words));
    let ended = run(bezoar(&gateway).args(["audit", "list", "--after", "2", "--json"]));
    assert!(ended.data.contains(r#""items":[{"#), "{ended:?}");
}

#[test]
fn a_whole_log_is_verified_and_its_head_printed() {
    let (entries, head) = log(2_500);
    let noted = entries[1_700]["hash"].as_str().unwrap().to_owned();
    let gateway = gateway(entries, head);
    let ended = run(bezoar(&gateway).args(["audit", "verify"]));
    assert_eq!((ended.code, ended.data.clone()), (0, format!("{}\n", head.hash)));
    assert!(ended.words.starts_with("verified 2,500 entries: none was changed"), "{ended:?}");
    assert_eq!(gateway.asked().len(), 3);
    let ended = run(bezoar(&gateway).args(["audit", "verify", "--json", "--head", &noted]));
    assert_eq!(
        ended.data,
        format!("{}\n", json!({ "entries": 2500, "head": head.hash.to_string() }))
    );
    assert!(ended.words.contains("belongs to entry 1701"), "{ended:?}");
}

#[test]
fn the_first_broken_entry_is_named() {
    type Harm = fn(&mut Vec<Value>);
    let harms: [(Harm, &str); 3] = [
        (|it| it[1_200]["actor"] = json!("eve"), "entry 1201 was changed"),
        (|it| drop(it.remove(7)), "entry 8 was removed"),
        (|it| it.truncate(1_400), "entry 1401 was removed"),
    ];
    for (harm, words) in harms {
        let (mut entries, head) = log(1_500);
        harm(&mut entries);
        let ended = run(bezoar(&gateway(entries, head)).args(["audit", "verify"]));
        assert_eq!((ended.code, ended.data.as_str()), (1, ""));
        assert!(ended.words.contains(words), "{words:?} is missing in {ended:?}");
    }
}

#[test]
fn a_log_that_was_written_anew_is_found_by_the_hash_that_was_noted() {
    let (entries, head) = log(3);
    let gateway = gateway(entries, head);
    let noted = "0123456789abcdef".repeat(4);
    let ended = run(bezoar(&gateway).args(["audit", "verify", "--head", &noted]));
    assert_eq!((ended.code, ended.data.as_str()), (1, ""));
    assert!(ended.words.contains("none of 3 entries has the hash given with --head"), "{ended:?}");
    assert_eq!(run(bezoar(&gateway).args(["audit", "verify", "--head", "abc"])).code, 2);
}

#[test]
fn a_missing_permission_is_reported() {
    let detail = "this needs the role operator for all queues";
    let gateway = Gateway::start(move |_, _| problem(403, "forbidden", detail));
    for command in ["list", "verify"] {
        let ended = run(bezoar(&gateway).args(["audit", command]));
        assert_eq!((ended.code, ended.words), (1, format!("bezoar: {detail}\n")));
    }
}

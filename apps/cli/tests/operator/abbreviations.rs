//! Ids by their beginning, and names that a shell completes.

use serde_json::json;

use crate::{
    bezoar,
    fake::{Answer, Gateway},
    run,
};

fn gateway() -> Gateway {
    Gateway::start(|_, asked| match asked.target.split('?').next().unwrap() {
        "/v1/causes" => Answer::Json(
            200,
            json!({ "items": [
                { "id": "v1:7da2268dc9730ffb", "title": "http.503" }, { "id": "v1:7da0000000000000" },
            ] }),
        ),
        "/v1/queues" => {
            let route = json!({ "name": "archive", "to": "http://h/" });
            Answer::Json(200, json!([{ "queue": "results", "route": route }]))
        }
        _ => Answer::Json(
            200,
            json!({ "next": null, "items": [], "matching": { "count": 0, "exact": true } }),
        ),
    })
}

#[test]
fn a_cause_is_found_by_its_beginning() {
    let gateway = gateway();
    run(bezoar(&gateway).args(["dead", "list", "--cause", "v1:7da2"]));
    let last = gateway.asked().last().unwrap().target.clone();
    assert!(last.contains("cause=v1%3A7da2268dc9730ffb"), "{last}");
    let ended = run(bezoar(&gateway).args(["dead", "list", "--cause", "v1:7da"]));
    let said = "bezoar: v1:7da is ambiguous: v1:7da2268dc9730ffb, v1:7da0000000000000\n";
    assert_eq!((ended.code, ended.words.as_str()), (1, said));
    let ended = run(bezoar(&gateway).args(["dead", "show", "dl_e42"]));
    assert_eq!(ended.words, "bezoar: no dead letter begins with dl_e42\n");
}

#[test]
fn shells_complete_the_names_of_the_gateway() {
    let gateway = gateway();
    for (line, expected) in [
        (["pause", ""], "archive"),
        (["send", "re"], "results"),
        (["ack", "v1:7da2"], "v1:7da2268dc9730ffb"),
    ] {
        let mut command = bezoar(&gateway);
        command.env("BEZOAR_COMPLETE", "fish").args(["--", "bezoar"]);
        command.args((line[0] == "ack").then_some("dead")).args(line);
        let ended = run(&mut command);
        assert_eq!((ended.code, ended.data.contains(expected)), (0, true), "{line:?}: {ended:?}");
    }
}

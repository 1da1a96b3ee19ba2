//! Poison queues that other programs fill.

use serde_json::json;

use crate::{
    endpoint::Endpoint,
    lab::{Lab, ask, dead_letter, python, reveal},
    life::route,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_poison_queue_of_azure_functions_is_taken_in_and_replayed_as_it_came() {
    let lab = Lab::new("", "[[queue]]\nname = \"lab/QUEUE\"\ndead_letter_queue = \"QUEUE-errors\"");
    let errors = format!("{}-errors", lab.queue);
    lab.python("create", &[]);
    python("send64", &errors, &["MSH|^~\\&|LAB"]); // Azure Functions write base64
    let (_gateway, client) = lab.up();
    let letter = dead_letter(&client).await;
    assert_eq!(reveal(&client, &letter).await, b"MSH|^~\\&|LAB");
    let wanted = json!({ "ids": [letter["id"]], "reason": "fixed" });
    assert_eq!(ask(&client, "/v1/replays", wanted).await.0, 202);
    client.until(&lab.name(), |row| row["dead"] == 0 && row["total"] == 1).await;
    let seen = lab.python("peek", &[]);
    assert_eq!(seen[0]["text"], "TVNIfF5+XCZ8TEFC", "the text as it came: {seen}");
    assert_eq!(python("count", &errors, &[]), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn dead_letters_that_are_only_counted_stay_and_can_be_replayed_there() {
    let endpoint = Endpoint::start().await;
    let counted = "[[queue]]\nname = \"lab/QUEUE\"\nwatch = \"count\"\n";
    let lab = Lab::new("", &[counted, &route(endpoint.port)].concat());
    let (gateway, client) = lab.up();
    lab.python("send", &["poison"]);
    let row = client.until(&lab.name(), |row| row["dead"] == 1).await;
    assert_eq!(row["transport"], "azurequeue");
    assert_eq!(client.get("/v1/dead-letters").await.json()["items"], json!([]));
    assert_eq!(python("count", &lab.poison(), &[]), 1);
    endpoint.cure();
    let url = format!("http://{}", gateway.address);
    let arguments = ["replay", "--queue", &lab.name(), "--on-broker", "--reason", "fixed", "--yes"];
    let arguments: Vec<_> = arguments.into_iter().chain(["--url", &url]).collect();
    let (done, said) = lab.run("dead", &arguments);
    assert!(done && said.contains("replayed 1 message on the broker"), "{said}");
    endpoint.until(|all| all.iter().any(|it| it.status == 200)).await;
    client.until(&lab.name(), |row| row["dead"] == 0 && row["total"] == 0).await;
}

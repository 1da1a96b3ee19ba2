//! Messages that fail in every way, counted from outside with Microsoft's client: each ends deleted, updated or dead
//! exactly as the table says.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::poison_retry::{PoisonRetryOptions, RetryFields};
use bezoar_runtime::PoisonRetry;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    microsoft_clients::Client,
    poison_retry::{Delay, Posted, endpoint},
    support::{Outside, open, options, queue},
};

/// How a message ends.
#[derive(Debug, Clone, PartialEq)]
enum End {
    Deleted,
    /// With this text.
    Updated(String),
    /// With this reason.
    Dead(&'static str),
}

/// How many messages a run takes at a time.
const BATCH: u32 = 25;
/// The delay of a message that is updated. It may come back during the run.
const COMES_BACK_AFTER: Duration = Duration::from_secs(1);

const UNDECODABLE: &str = "Failed to deserialize message";
const EXHAUSTED: &str = "max retries (3) exhausted";
const REJECTED: &str = "non-retryable error: permanent";

/// A text with a number of its own, how often it is delivered, and how it ends.
fn case(number: usize) -> (String, u32, End) {
    let json = |word: &str, count: &str| format!(r#"{{"Do":"{word} n={number}"{count},"x":1.50}}"#);
    let counted = |word: &str, count: &str| json(word, &format!(r#","RetryCount":{count}"#));
    let record = |text: &str| {
        json!({ "OriginalMessageId": "o", "OriginalText": text, "DequeueCount": 6 }).to_string()
    };
    let envelope = |word: &str| {
        let body = BASE64_STANDARD.encode(format!("{word} n={number}"));
        format!(r#"{{"bezoar":1,"id":"m-{number}","type":"t","time":0,"body":"{body}"}}"#)
    };
    let last = |text: &str, member: &str| format!("{},{member}}}", text.strip_suffix('}').unwrap());
    let raised = |text: &str| last(text, r#""RetryCount":1"#);
    match number % 20 {
        0 => (counted("accept", "0"), 1, End::Deleted),
        1 => (counted("accept", "2"), 1, End::Deleted),
        2 => (counted("refuse", "1"), 1, End::Updated(counted("refuse", "2"))),
        3 => (counted("refuse", "2"), 1, End::Updated(counted("refuse", "3"))),
        4 => (json("refuse", ""), 1, End::Updated(raised(&json("refuse", "")))),
        5 => (counted("accept", "3"), 0, End::Dead(EXHAUSTED)),
        6 => (counted("accept", "99999999999999999999"), 0, End::Dead(EXHAUSTED)),
        7 => (counted("accept", "-1"), 0, End::Dead(UNDECODABLE)),
        8 => (counted("accept", r#""2""#), 0, End::Dead(UNDECODABLE)),
        9 => (format!(r#"{{"Do":"accept n={number}","#), 0, End::Dead(UNDECODABLE)),
        10 => (counted("panic", "0"), 1, End::Updated(counted("panic", "1"))),
        11 => (counted("reject", "0"), 1, End::Dead(REJECTED)),
        12 => (record(&json("accept", "")), 1, End::Deleted),
        13 => {
            let text = record(&format!("MSH|refuse n={number}"));
            (text.clone(), 1, End::Updated(raised(&text)))
        }
        14 => {
            let text = format!("MSH|refuse n={number}\rPID|é");
            let wrapped = json!({ "bezoar": 1, "text": text }).to_string();
            (text, 1, End::Updated(raised(&wrapped)))
        }
        15 => {
            let encode = |count| BASE64_STANDARD.encode(counted("refuse", count));
            (encode("0"), 1, End::Updated(encode("1")))
        }
        16 => (envelope("accept"), 1, End::Deleted),
        17 => (envelope("refuse"), 1, End::Updated(raised(&envelope("refuse")))),
        18 => (counted("hang", "0"), 1, End::Updated(counted("hang", "1"))),
        _ => (format!(r#"{{"bezoar":7,"new":"accept n={number}"}}"#), 0, End::Dead(UNDECODABLE)),
    }
}

/// The text without the ledger, whose times differ from run to run.
fn without_ledger(text: &str) -> String {
    let at = text.find(r#","ledger":{"#);
    at.map_or(text.to_owned(), |at| format!("{}}}", &text[..at]))
}

/// How long the messages of one queue took to be put, to be processed and to be counted.
#[derive(Debug)]
struct Took {
    put: Duration,
    run: Duration,
    count: Duration,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { put, run, count } = self;
        write!(f, "put in {put:.1?}, processed in {run:.1?}, waited for and counted in {count:.1?}")
    }
}

/// A run takes exactly as many messages as there are, so none a second time, however slow the machine is: Azurite hands out
/// the messages that became visible first, and those that the run updates become visible after all others.
async fn every_way(messages: usize) -> Took {
    assert_eq!(messages % BATCH as usize, 0, "every batch is full");
    let started = Instant::now();
    let (name, transport) = (queue("table").await, open(options()));
    let (poison, dead) = (Outside::queue(name.as_str()), format!("{name}-poison"));
    stream::iter(0..messages)
        .for_each_concurrent(16, |number| {
            let poison = &poison;
            async move { poison.put(&case(number).0).await }
        })
        .await;
    let put = started.elapsed();
    let posted = Posted::default();
    let access = transport.poison_queue(&name, RetryFields::default()).unwrap();
    let settings = PoisonRetryOptions {
        batch: BATCH,
        batches: messages as u32 / BATCH,
        timeout: Duration::from_millis(250),
        ..PoisonRetryOptions::default()
    };
    let processor = PoisonRetry::new(Arc::new(access), settings, endpoint(posted.clone())).unwrap();
    let started = Instant::now();
    let run = processor.strategy(Delay(COMES_BACK_AFTER)).unwrap().run_once().await.unwrap();
    let took = started.elapsed();

    let ends: Vec<_> = (0..messages).map(case).collect();
    let count = |is: fn(&End) -> bool| ends.iter().filter(|it| is(&it.2)).count() as u64;
    assert_eq!((run.taken, run.left), (messages as u64, 0));
    assert_eq!(run.delivered, count(|it| *it == End::Deleted));
    assert_eq!(run.retried, count(|it| matches!(it, End::Updated(_))));
    assert_eq!(run.dead_lettered, count(|it| matches!(it, End::Dead(_))));
    assert_eq!(
        posted.lock().unwrap().len() as u64,
        ends.iter().map(|it| u64::from(it.1)).sum::<u64>()
    );

    let started = Instant::now();
    let texts = |value: Value| {
        let texts = value.as_array().unwrap().clone();
        texts.into_iter().map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut left = texts(Client::Python.run("drain", name.as_str()).await);
    left.iter_mut().for_each(|it| *it = without_ledger(it));
    left.sort();
    let mut expected: Vec<_> = ends
        .iter()
        .filter_map(|it| match &it.2 {
            End::Updated(text) => Some(text.clone()),
            _ => None,
        })
        .collect();
    expected.sort();
    assert_eq!(left, expected);

    let mut records: BTreeMap<String, Value> = BTreeMap::new();
    for text in texts(Client::Python.run("drain", &dead).await) {
        let record: Value = serde_json::from_str(&text).unwrap();
        let original = record["OriginalText"].as_str().unwrap().to_owned();
        assert!(records.insert(original, record).is_none(), "one record each");
    }
    for (text, _, end) in &ends {
        if let End::Dead(reason) = end {
            let record = records.remove(text).unwrap_or_else(|| panic!("no record of {text}"));
            assert_eq!(record["Bezoar"]["reason"], *reason, "{text}");
        }
    }
    assert!(records.is_empty(), "{records:?}");
    // Every message in Azurite slows it down.
    poison.delete_queue().await;
    Outside::queue(&dead).delete_queue().await;
    Took { put, run: took, count: started.elapsed() }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn messages_that_fail_in_every_way_end_as_the_table_says() {
    every_way(400).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON"]
async fn soak_ten_thousand_messages_that_fail_in_every_way_end_as_the_table_says() {
    // In 25 queues: for every request Azurite looks at all messages of the account, and sorts the visible ones of a queue.
    // Several at a time, because most of it is waiting.
    let started = Instant::now();
    let queues = stream::iter(0..25).for_each_concurrent(3, async |number| {
        println!("queue {number}: {}", every_way(400).await);
    });
    queues.await;
    println!("10,000 messages in {:.0?}", started.elapsed());
}

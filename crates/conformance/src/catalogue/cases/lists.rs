//! Lists, filters and counts.

use bezoar_core::{
    Code, CorrelationId, DeadLetterId, FailureKind, MessageId, MessageType,
    catalogue::{CatalogueError, Count, DeadLetterState, Filter, ListRequest},
    millis,
};

use crate::catalogue::store::*;

/// Four dead letters of three causes, a second apart.
async fn filled(store: &Store) -> Vec<DeadLetterId> {
    let mut ids = Vec::new();
    for (queue, message, how) in [
        ("lab", typed("a", "blood"), dead_by(FailureKind::Database, "db.down", "no connection")),
        ("lab", typed("b", "blood"), dead_by(FailureKind::Permanent, "bad", "no patient 17")),
        ("x-ray", typed("c", "image"), dead_by(FailureKind::Permanent, "bad", "no patient 18")),
        ("lab", typed("d", "blood"), dead_by(FailureKind::Permanent, "bad", "no patient 19")),
    ] {
        store.send(queue, message).await;
        store.settle_all(queue, &how).await;
        ids.push(store.all().await[0].id);
        store.elapse(1).await;
    }
    ids
}

pub(crate) async fn a_summary_says_what_happened(store: Store) {
    let ids = filled(&store).await;
    let letter = store.all().await.remove(0);
    assert_eq!(letter.id, ids[3]);
    assert_eq!((letter.queue.as_str(), letter.message_id.as_str()), ("lab", "d"));
    assert_eq!((letter.message_type.as_str(), letter.kind), ("blood", FailureKind::Permanent));
    assert_eq!((letter.code.as_str(), letter.reason.as_str()), ("bad", "retries exhausted"));
    assert_eq!((letter.attempts, letter.replayed), (1, 0));
    assert_eq!(letter.body_bytes, CANARY.len() as u64);
    assert_eq!(letter.died_at.as_millisecond(), store.now().as_millisecond() - 1_000);
    assert_eq!(letter.arrived_at, letter.died_at);
    assert_eq!((letter.state, letter.edited_from), (DeadLetterState::Open, None));
}

pub(crate) async fn every_filter_finds_what_matches_and_counts_it(store: Store) {
    let ids = filled(&store).await;
    let now = store.now().as_millisecond();
    let at = |second: i64| Some(millis(now + (second - 4) * 1_000));
    let all = store.all().await;
    let cause = all[0].cause.clone();
    let none = Filter::default;
    for (filter, expected) in [
        (none(), vec![3, 2, 1, 0]),
        (Filter { queues: Some(vec![queue("lab")]), ..none() }, vec![3, 1, 0]),
        (Filter { queues: Some(vec![queue("lab"), queue("x-ray")]), ..none() }, vec![3, 2, 1, 0]),
        (Filter { queues: Some(vec![]), ..none() }, vec![]),
        (Filter { message_type: MessageType::new("image").ok(), ..none() }, vec![2]),
        (Filter { kind: Some(FailureKind::Permanent), ..none() }, vec![3, 2, 1]),
        (Filter { code: Code::new("db.down").ok(), ..none() }, vec![0]),
        (Filter { cause: Some(cause.clone()), ..none() }, vec![3, 1]),
        (Filter { correlation_id: CorrelationId::new("of b").ok(), ..none() }, vec![1]),
        (Filter { message_id: MessageId::new("c").ok(), ..none() }, vec![2]),
        (Filter { since: at(2), ..none() }, vec![3, 2]),
        (Filter { until: at(2), ..none() }, vec![1, 0]),
        (Filter { since: at(1), until: at(3), ..none() }, vec![2, 1]),
        (Filter { since: at(9), ..none() }, vec![]),
        (Filter { min_attempts: Some(1), ..none() }, vec![3, 2, 1, 0]),
        (Filter { min_attempts: Some(2), ..none() }, vec![]),
        (Filter { replayed: Some(false), ..none() }, vec![3, 2, 1, 0]),
        (Filter { replayed: Some(true), ..none() }, vec![]),
        (Filter { state: Some("open"), ..none() }, vec![3, 2, 1, 0]),
        (Filter { state: Some("held"), ..none() }, vec![]),
        (Filter { cause: Some(cause), since: at(2), ..none() }, vec![3]),
    ] {
        let found: Vec<_> = store.list(&filter).await.iter().map(|letter| letter.id).collect();
        let expected: Vec<_> = expected.into_iter().map(|place: usize| ids[place]).collect();
        assert_eq!(found, expected, "{filter:?}");
        let matching: Vec<_> =
            all.iter().filter(|letter| filter.matches(letter)).map(|letter| letter.id).collect();
        assert_eq!(matching, expected, "Filter::matches agrees: {filter:?}");
        let count = store.catalogue().count(&filter).await.expect("they can be counted");
        assert_eq!(count, Count { count: expected.len() as u64, exact: true }, "{filter:?}");
    }
}

pub(crate) async fn pages_are_complete_and_newest_first(store: Store) {
    let mut expected = store.kill_many("lab", 7, "boom").await;
    expected.reverse();
    for filter in
        [Filter::default(), Filter { queues: Some(vec![queue("lab")]), ..Filter::default() }]
    {
        assert_eq!(paged(&store, &filter, 3).await, expected);
    }
}

/// Lists everything that matches, page by page.
async fn paged(store: &Store, filter: &Filter, limit: u32) -> Vec<DeadLetterId> {
    let (mut found, mut page) = (Vec::new(), ListRequest { after: None, limit });
    while let Some(last) = {
        let rows = store.catalogue().list(filter, &page).await.expect("they can be listed");
        assert!(rows.len() <= limit as usize, "a page has at most `limit` letters");
        found.extend(rows.iter().map(|row| row.id));
        rows.last().map(|row| row.position())
    } {
        page.after = Some(last);
    }
    found
}

pub(crate) async fn pages_mix_letters_that_died_here_and_elsewhere(store: Store) {
    store.elapse(100).await;
    for number in 0..8 {
        store.kill("lab", message("here"), "boom").await;
        let mut elsewhere = letter(number, message("elsewhere"));
        // Some have the same time as a local letter, some lie between two, some have the time of
        // arrival.
        elsewhere.at = store.now() - std::time::Duration::from_millis(number as u64 % 4 * 500);
        store.take_in(vec![elsewhere]).await;
        store.elapse(1).await;
    }
    let mut expected = store.all().await;
    assert_eq!(expected.len(), 16);
    expected.sort_by_key(|letter| std::cmp::Reverse(letter.died_at));
    assert_eq!(expected, store.all().await, "the last dead-lettered comes first");
    let since = Some(expected[9].died_at);
    for limit in 1..4 {
        for filter in [Filter::default(), Filter { since, ..Filter::default() }] {
            let matching = expected.iter().filter(|letter| filter.matches(letter));
            let matching: Vec<_> = matching.map(|letter| letter.id).collect();
            assert_eq!(paged(&store, &filter, limit).await, matching, "{filter:?}");
        }
    }
}

pub(crate) async fn a_page_goes_on_where_its_last_letter_was_even_if_that_is_gone(store: Store) {
    let ids = store.kill_many("lab", 4, "boom").await;
    let first = ListRequest { after: None, limit: 2 };
    let page = store.catalogue().list(&Filter::default(), &first).await.expect("a page");
    let after = Some(page[1].position());
    store.run(bezoar_core::catalogue::OperationKind::Discard, by_id(&[page[1].id])).await;
    let next = ListRequest { after, limit: 9 };
    let page = store.catalogue().list(&Filter::default(), &next).await.expect("a page");
    let found: Vec<_> = page.iter().map(|row| row.id).collect();
    assert_eq!(found, [ids[1], ids[0]]);
}

fn by_id(ids: &[DeadLetterId]) -> bezoar_core::catalogue::Selection {
    bezoar_core::catalogue::Selection::Ids(ids.to_vec())
}

pub(crate) async fn a_page_of_none_or_too_many_is_bounded(store: Store) {
    store.kill_many("lab", 2, "boom").await;
    for (limit, expected) in [(0, 1), (u32::MAX, 2)] {
        let page = ListRequest { after: None, limit };
        let rows = store.catalogue().list(&Filter::default(), &page).await.expect("a page");
        assert_eq!(rows.len(), expected, "{limit}");
    }
}

pub(crate) async fn a_record_has_the_message_as_it_was_sent(store: Store) {
    let sent = message("a");
    let id = store.kill("lab", sent.clone(), "boom").await;
    let record = store.record(id).await;
    assert_eq!(record.message.body, sent.body);
    assert_eq!(record.message.headers, sent.headers);
    assert_eq!(record.message.ledger.history().len(), 1);
    assert_eq!((record.entry.id, record.reason), (id, reason()));
    assert_eq!(record.operations, []);
}

pub(crate) async fn a_record_without_its_body_has_everything_else(store: Store) {
    let sent = message("a");
    let id = store.kill("lab", sent.clone(), "boom").await;
    let without = store.catalogue().record_without_body(id).await;
    let mut without = without.expect("a dead letter can be read");
    assert!(without.message.body.is_empty());
    assert_eq!(without.entry.body_bytes, sent.body.len() as u64);
    without.message.body = sent.body;
    assert_eq!(without, store.record(id).await);
}

pub(crate) async fn a_missing_dead_letter_is_named(store: Store) {
    let (missing, catalogue) = (no_dead_letter(), store.catalogue());
    for refused in [catalogue.record(missing).await, catalogue.record_without_body(missing).await] {
        assert!(matches!(refused, Err(CatalogueError::NoDeadLetter(id)) if id == missing));
    }
}

pub(crate) async fn nothing_sensitive_is_shown_by_debug(store: Store) {
    let id = store.kill("lab", message("a"), &format!("no patient {CANARY}")).await;
    let operation = store.plan(replay(), everything()).await;
    let shown = format!(
        "{:?} {:?} {:?} {operation:?} {:?} {:?}",
        store.all().await,
        store.record(id).await,
        store.causes(&Filter::default()).await,
        store.items(operation.id).await,
        store.catalogue().audit(0, 9).await,
    );
    assert!(shown.contains("lab.result"), "{shown}");
    assert!(!shown.contains(CANARY), "nothing sensitive is shown");
}

pub(crate) async fn newest_first_is_by_the_time_of_death(store: Store) {
    store.elapse(100).await;
    let here = store.kill("lab", message("here"), "boom").await;
    store.elapse(1).await;
    store.take_in(vec![letter(1, message("elsewhere"))]).await;
    let all = store.all().await;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].id, here, "it was dead-lettered later, though the other arrived later");
}

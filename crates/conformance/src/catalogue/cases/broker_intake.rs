//! Dead letters that are taken in from a broker, and replays to it.

use bezoar_core::{
    ErrorKind, FailureKind, Message, Reason, Settlement,
    catalogue::{CatalogueError, Filter, ItemState, OperationState, RejectionFilter, ReplayIds},
    millis,
};

use crate::catalogue::store::*;

pub(crate) async fn a_letter_is_taken_in_once_with_everything_it_has(store: Store) {
    let letters = || vec![letter(7, message("a")), letter(8, message("a"))];
    assert_eq!(store.take_in(letters()).await, 2, "message ids may repeat");
    assert_eq!(store.take_in(letters()).await, 0, "ids of dead letters do not repeat");
    let found = store.all().await.remove(0);
    assert_eq!((found.queue.as_str(), found.attempts), (RESULTS, 1));
    let record = store.record(found.id).await;
    assert_eq!(record.message, letter(7, message("a")).message);
    assert_eq!(record.reason, reason());
}

pub(crate) async fn another_letter_with_the_same_id_is_not_ignored(store: Store) {
    store.take_in(vec![letter(7, message("a"))]).await;
    assert_eq!(store.take_in(vec![letter(7, message("other"))]).await, 1);
}

pub(crate) async fn the_time_of_death_is_kept(store: Store) {
    store.elapse(1_000).await;
    store.take_in(vec![letter(1, message("a"))]).await;
    let found = store.only().await;
    assert_eq!((found.died_at, found.arrived_at), (millis(5_000), store.now()));
    let depth = store.admin().depth(&queue(RESULTS)).await.expect("a depth");
    assert_eq!(depth.oldest_dead, Some(millis(5_000)), "its age is not reset");
    let until = Filter { until: Some(millis(6_000)), ..Filter::default() };
    assert_eq!(store.count(&until).await, 1, "filters use the time of dead-lettering");
}

pub(crate) async fn a_death_in_the_future_is_one_of_now(store: Store) {
    let mut early = letter(1, message("a"));
    early.at = store.now() + std::time::Duration::from_secs(9_000);
    store.take_in(vec![early]).await;
    assert_eq!(store.only().await.died_at, store.now(), "a time in the future counts as now");
}

pub(crate) async fn what_was_taken_in_long_ago_is_forgotten(store: Store) {
    store.take_in(vec![letter(7, message("a"))]).await;
    store.elapse(31 * 24 * 60 * 60).await;
    store.take_in(vec![letter(8, message("b"))]).await;
    assert_eq!(store.take_in(vec![letter(7, message("a"))]).await, 1);
}

pub(crate) async fn a_replay_completes_when_the_broker_says_so(store: Store) {
    store.take_in(vec![letter(1, message("a")), letter(2, message("b"))]).await;
    let id = store.run(replay(), everything()).await.id;
    let given = store.give_to_broker(RESULTS).await;
    assert!(given.iter().all(|it| it.ledger.replay == Some(id) && it.ledger.replayed == 1));
    assert_eq!(store.outcomes(id).await, (2, 0, 0), "both are on the broker, without an outcome");
    store.completed(RESULTS, id, &given[0]).await;
    store.completed(RESULTS, id, &given[0]).await;
    assert_eq!(store.outcomes(id).await, (1, 1, 0), "reported twice, counted once");
    assert_eq!(store.take_in(vec![letter(3, given[1].clone())]).await, 1);
    assert_eq!(store.outcomes(id).await, (0, 1, 1));
    assert_eq!(store.operation(id).await.state, OperationState::Ended);
    let again = store.only().await;
    let failed = ItemState::Failed { again: again.id, cause: again.cause.clone() };
    assert!(store.items(id).await.iter().any(|item| item.state == failed));
}

/// The same message id in two queues, both replayed by one operation.
async fn twins(store: &Store) {
    store.take_into("hospital/a", vec![letter(1, message("twin"))]).await;
    store.take_into("hospital/b", vec![letter(2, message("twin"))]).await;
}

pub(crate) async fn a_success_in_another_queue_completes_nothing(store: Store) {
    twins(&store).await;
    let id = store.run(replay(), everything()).await.id;
    let a = store.give_to_broker("hospital/a").await.remove(0);
    store.give_to_broker("hospital/b").await;
    store.completed("hospital/b", id, &a).await;
    let done: Vec<_> = store.items(id).await;
    let states: Vec<_> = done.iter().map(|it| (it.queue.as_str(), it.state.as_str())).collect();
    assert!(states.contains(&("hospital/a", "in flight")), "{states:?}");
    assert!(states.contains(&("hospital/b", "completed")), "{states:?}");
}

pub(crate) async fn a_failure_in_another_queue_fails_nothing(store: Store) {
    twins(&store).await;
    let id = store.run(replay(), everything()).await.id;
    store.give_to_broker("hospital/a").await;
    let b = store.give_to_broker("hospital/b").await.remove(0);
    store.take_into("hospital/b", vec![letter(3, b)]).await;
    let items = store.items(id).await;
    let of = |name: &str| {
        items.iter().find(|item| item.queue.as_str() == name).map(|item| item.state.as_str())
    };
    assert_eq!((of("hospital/a"), of("hospital/b")), (Some("in flight"), Some("failed again")));
}

pub(crate) async fn a_canary_passes_only_by_its_own_success(store: Store) {
    twins(&store).await;
    let kind = replay_with(1, None, ReplayIds::Same);
    let id = store.plan(kind, everything()).await.id;
    store.command(id, bezoar_core::catalogue::OperationCommand::Run).await;
    assert_eq!(store.advance(id, 9).await.done, 1);
    let first = store.items(id).await.remove(0).queue;
    let other = if first.as_str() == "hospital/a" { "hospital/b" } else { "hospital/a" };
    store.give_to_broker(first.as_str()).await;
    store.completed(other, id, &message("twin")).await;
    assert_eq!(store.advance(id, 9).await.done, 0, "the canary is still in flight");
    store.completed(first.as_str(), id, &message("twin")).await;
    assert_eq!(store.advance(id, 9).await.done, 1);
}

pub(crate) async fn outcomes_find_messages_under_new_ids_and_ignore_strangers(store: Store) {
    store.take_in(vec![letter(1, message("a"))]).await;
    let id = store.run(replay_with(0, None, ReplayIds::New), everything()).await.id;
    let given = store.give_to_broker(RESULTS).await.remove(0);
    assert_ne!(given.id.as_str(), "a");
    store.completed(RESULTS, id, &message("a")).await;
    store.completed(RESULTS, no_operation(), &given).await;
    assert_eq!(store.outcomes(id).await, (1, 0, 0));
    store.completed(RESULTS, id, &given).await;
    assert_eq!(store.outcomes(id).await, (0, 1, 0));
}

pub(crate) async fn one_that_cannot_be_given_back_fails_here(store: Store) {
    store.take_in(vec![letter(1, message("a"))]).await;
    let id = store.run(replay(), everything()).await.id;
    store.settle_all(RESULTS, &dead("no exchange")).await;
    assert_eq!(store.outcomes(id).await, (0, 0, 1));
}

pub(crate) async fn an_adopted_queue_changes_no_other(store: Store) {
    for _ in 0..2 {
        store.catalogue().adopt(&queue(RESULTS)).await.expect("a queue can be adopted");
    }
    store.kill("lab", message("a"), "boom").await;
    let id = store.run(replay(), everything()).await.id;
    store.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(store.outcomes(id).await, (0, 1, 0));
}

fn rejected_by_broker(id: i64, message: Message) -> bezoar_core::DeadLetter {
    rejected(id, message, Reason::new(Reason::REJECTED, "set aside by the broker"))
}

pub(crate) async fn an_announced_letter_has_its_reason_and_history(store: Store) {
    let told = letter(0, message("a")).message;
    let announced = vec![(told.clone(), reason())];
    store.catalogue().announce(&queue(RESULTS), announced).await.expect("announced");
    let letters = vec![rejected_by_broker(1, message("b")), rejected_by_broker(2, message("a"))];
    store.take_in(letters).await;
    let of = async |id: &str| {
        let id = bezoar_core::MessageId::new(id).ok();
        let found = store.list(&Filter { message_id: id, ..Filter::default() }).await;
        store.record(found[0].id).await
    };
    let a = of("a").await;
    assert_eq!((a.message, a.reason), (told, reason()));
    assert_eq!(a.entry.kind, FailureKind::Transient);
    assert_eq!(of("b").await.reason.code(), &Reason::REJECTED, "it was not announced");
}

/// The sender set no id, and the broker does not keep the one that was assigned: the letter comes with another.
pub(crate) async fn an_announced_letter_without_an_id_is_found_by_its_content(store: Store) {
    let with_id = |content, random| {
        let mut message = letter(0, message("a")).message;
        message.id = bezoar_core::MessageId::assign(content, random);
        message
    };
    let announced = vec![(with_id(7, 1), reason())];
    store.catalogue().announce(&queue(RESULTS), announced).await.expect("announced");
    let other = rejected_by_broker(1, with_id(8, 2));
    store.take_in(vec![other, rejected_by_broker(2, with_id(7, 3))]).await;
    let mut found = Vec::new();
    for entry in store.all().await {
        let record = store.record(entry.id).await;
        found.push((record.message.id.to_string(), record.reason.code().to_string()));
    }
    found.sort();
    let expected = [
        (with_id(7, 1).id.to_string(), reason().code().to_string()),
        (with_id(8, 2).id.to_string(), Reason::REJECTED.to_string()),
    ];
    assert_eq!(found, expected);
}

pub(crate) async fn an_announcement_counts_once_and_not_for_ever(store: Store) {
    let told = letter(0, message("a")).message;
    let announce = async || {
        let announced = vec![(told.clone(), reason())];
        store.catalogue().announce(&queue(RESULTS), announced).await.expect("announced");
    };
    announce().await;
    store.take_in(vec![rejected_by_broker(1, message("a"))]).await;
    store.take_in(vec![rejected_by_broker(2, message("a"))]).await;
    let attempts: u32 = store.all().await.iter().map(|it| it.attempts).sum();
    assert_eq!(attempts, 1, "an announcement applies to one letter");
    announce().await;
    store.elapse(31 * 24 * 60 * 60).await;
    store.take_in(Vec::new()).await;
    store.take_in(vec![rejected_by_broker(3, message("a"))]).await;
    let attempts: u32 = store.all().await.iter().map(|it| it.attempts).sum();
    assert_eq!(attempts, 1, "an announcement is forgotten after 30 days");
}

pub(crate) async fn what_was_announced_is_found_until_it_is_forgotten(store: Store) {
    let told = letter(0, message("a")).message;
    let announced = vec![(told.clone(), reason())];
    store.catalogue().announce(&queue(RESULTS), announced).await.expect("announced");
    let found = async |filter: RejectionFilter| {
        store.catalogue().rejections(&filter, 10).await.expect("rejections can be listed")
    };
    let by_id = |id: &str| RejectionFilter {
        message_id: bezoar_core::MessageId::new(id).ok(),
        ..RejectionFilter::default()
    };
    let by_correlation = |id: &str| RejectionFilter {
        correlation_id: bezoar_core::CorrelationId::new(id).ok(),
        ..RejectionFilter::default()
    };
    let of_queue = |name: &str| RejectionFilter {
        queues: Some(vec![queue(name)]),
        ..RejectionFilter::default()
    };
    let all = found(by_id("a")).await;
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0].reason, &all[0].ledger), (&reason(), &told.ledger));
    assert_eq!(all[0].correlation_id, told.correlation_id);
    assert_eq!(found(by_correlation("of a")).await.len(), 1);
    assert_eq!(found(of_queue(RESULTS)).await.len(), 1);
    for none in [by_id("another"), by_correlation("another"), of_queue("another")] {
        assert_eq!(found(none).await, []);
    }
    let more = ["b", "c"].map(|id| (letter(0, message(id)).message, reason())).to_vec();
    store.catalogue().announce(&queue(RESULTS), more).await.expect("announced");
    let (mut ids, mut filter) = (Vec::new(), RejectionFilter::default());
    loop {
        let page = store.catalogue().rejections(&filter, 1).await.expect("a page");
        let Some(last) = page.last() else { break };
        filter.after = Some(last.position().to_string().parse().expect("a position is read back"));
        ids.extend(page.iter().map(|it| it.message_id.to_string()));
    }
    ids.sort();
    assert_eq!(ids, ["a", "b", "c"], "pages list each once");
    store.elapse(31 * 24 * 60 * 60).await;
    assert_eq!(found(by_id("a")).await, [], "an announcement is listed for 30 days only");
}

pub(crate) async fn a_full_store_takes_nothing_in(mut store: Store) {
    store.kill("lab", message("a"), "boom").await;
    store.restart_full().await;
    let letters = vec![letter(1, message("b"))];
    let refused = store.catalogue().take_in(&queue(RESULTS), letters).await;
    assert!(is_full(&refused), "the letter stays on the broker: {refused:?}");
    let announced = vec![(message("c"), reason())];
    let refused = store.catalogue().announce(&queue(RESULTS), announced).await;
    assert!(is_full(&refused), "{refused:?}");
    assert_eq!(store.only().await.message_id.as_str(), "a");
    store.restart().await;
    assert_eq!(
        store.take_in(vec![letter(1, message("b"))]).await,
        1,
        "a refused letter is not remembered"
    );
}

pub(crate) async fn a_full_store_can_be_emptied(mut store: Store) {
    store.kill_many("lab", 2, "boom").await;
    store.restart_full().await;
    let ids: Vec<_> = store.all().await.iter().map(|it| it.id).collect();
    let one = bezoar_core::catalogue::Selection::Ids(vec![ids[0]]);
    store.run(bezoar_core::catalogue::OperationKind::Discard, one).await;
    store.run(replay(), everything()).await;
    assert_eq!(store.settle_all("lab", &Settlement::Complete).await, 1);
}

/// Whether something was refused because the store is full.
pub(super) fn is_full<T>(result: &Result<T, CatalogueError>) -> bool {
    matches!(result, Err(CatalogueError::Store(error)) if error.kind == ErrorKind::Full)
}

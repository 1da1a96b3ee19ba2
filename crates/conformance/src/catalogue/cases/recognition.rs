//! Recognizes dead letters without a lasting id that a broker delivers again.
//!
//! Each number is the id that a letter gets when it is handed out; `A` and `B` are sessions of the broker.

use bezoar_core::{
    DeadLetter, DeadLetterId, Message, Reason, Recognition,
    catalogue::{CatalogueError, Filter, OperationKind, Selection},
};

use crate::catalogue::store::*;

const A: u64 = 1;
const B: u64 = 2;
const C: u64 = 3;

/// A letter that is handed out for the first time.
fn first(id: i64, session: u64, message: Message) -> DeadLetter {
    let recognition = Recognition::Content { session, redelivered: false };
    DeadLetter { recognition, ..letter(id, message) }
}

/// A letter that was handed out before.
fn again(id: i64, session: u64, message: Message) -> DeadLetter {
    let recognition = Recognition::Content { session, redelivered: true };
    DeadLetter { recognition, ..letter(id, message) }
}

async fn removing(store: &Store, letters: &[i64]) -> Result<(), CatalogueError> {
    let ids: Vec<_> = letters.iter().map(|id| letter(*id, message("a")).id).collect();
    store.catalogue().removing(&queue(RESULTS), &ids).await
}

/// The possible copies, each with its original.
async fn doubts(store: &Store) -> Vec<(DeadLetterId, DeadLetterId)> {
    let all = store.all().await;
    all.iter().filter_map(|it| it.possible_copy_of.map(|original| (it.id, original))).collect()
}

pub(crate) async fn a_letter_that_was_stored_and_not_removed_is_taken_in_once(mut store: Store) {
    assert_eq!(store.take_in(vec![first(1, A, message("a"))]).await, 1);
    store.restart().await;
    for (id, session) in [(2, B), (3, C)] {
        assert_eq!(
            store.take_in(vec![again(id, session, message("a"))]).await,
            0,
            "it is recognized after each crash"
        );
    }
    removing(&store, &[3]).await.expect("the session that recognized it last can remove it");
    assert_eq!(store.all().await.len(), 1);
    assert_eq!(doubts(&store).await, []);
}

pub(crate) async fn equal_letters_that_come_for_the_first_time_are_all_kept(store: Store) {
    let twins = vec![first(1, A, message("a")), first(2, A, message("a"))];
    assert_eq!(store.take_in(twins).await, 2);
    assert_eq!(
        store.take_in(vec![first(3, B, message("a"))]).await,
        1,
        "also from another session"
    );
    assert_eq!(doubts(&store).await, []);
}

pub(crate) async fn as_many_equal_letters_are_recognized_as_were_taken_in(store: Store) {
    store.take_in(vec![first(1, A, message("a")), first(2, A, message("a"))]).await;
    // A third was prefetched when the process died.
    let all = (3..6).map(|id| again(id, B, message("a"))).collect();
    assert_eq!(store.take_in(all).await, 1, "two are known, the third is new");
    let all = (6..9).map(|id| again(id, C, message("a"))).collect();
    assert_eq!(store.take_in(all).await, 0, "now there are three");
}

pub(crate) async fn a_letter_that_comes_twice_in_one_session_is_kept_and_marked(store: Store) {
    store.take_in(vec![first(1, A, message("a"))]).await;
    let original = store.only().await.id;
    assert_eq!(store.take_in(vec![again(2, A, message("a"))]).await, 1, "a node was unreachable");
    let doubts = doubts(&store).await;
    assert_eq!((doubts.len(), doubts[0].1), (1, original));
    removing(&store, &[1, 2]).await.expect("both are accounted for");
}

pub(crate) async fn a_letter_whose_dead_letter_is_gone_is_kept_and_marked(store: Store) {
    store.take_in(vec![first(1, A, message("a"))]).await;
    let original = store.only().await.id;
    // Another program removed it from the broker, and somebody discarded it here.
    store.run(OperationKind::Discard, Selection::Ids(vec![original])).await;
    assert_eq!(store.take_in(vec![again(2, B, message("a"))]).await, 1, "it may be another");
    assert_eq!(doubts(&store).await, [(store.only().await.id, original)]);
}

pub(crate) async fn a_letter_that_was_replayed_and_died_again_is_another_one(store: Store) {
    store.take_in(vec![first(1, A, message("a"))]).await;
    removing(&store, &[1]).await.expect("it was taken in");
    let id = store.run(replay(), everything()).await.id;
    let given = store.give_to_broker(RESULTS).await.remove(0);
    assert_eq!(store.take_in(vec![again(2, B, given)]).await, 1);
    assert_eq!(store.outcomes(id).await, (0, 0, 1), "it failed again");
    assert_eq!(doubts(&store).await, []);
}

pub(crate) async fn a_possible_copy_has_the_reason_of_its_original(store: Store) {
    let told = letter(0, message("a")).message;
    let announced = vec![(told.clone(), reason())];
    store.catalogue().announce(&queue(RESULTS), announced).await.expect("announced");
    let by_broker = |letter: DeadLetter| DeadLetter {
        reason: Reason::new(Reason::REJECTED, "set aside by the broker"),
        message: message("a"),
        ..letter
    };
    store.take_in(vec![by_broker(first(1, A, message("a")))]).await;
    removing(&store, &[1]).await.expect("it was taken in");
    store.take_in(vec![by_broker(again(2, B, message("a")))]).await;
    let (copy, _) = doubts(&store).await.remove(0);
    let record = store.record(copy).await;
    assert_eq!((record.reason, record.message.ledger), (reason(), told.ledger));
}

pub(crate) async fn a_letter_that_may_have_been_removed_is_kept_and_marked(mut store: Store) {
    store.take_in(vec![first(1, A, message("a"))]).await;
    let original = store.only().await.id;
    removing(&store, &[1]).await.expect("it was taken in");
    store.restart().await;
    assert_eq!(store.take_in(vec![again(2, B, message("a"))]).await, 1, "a possible copy is kept");
    let copy = store.all().await.into_iter().find(|it| it.id != original).expect("a second one");
    assert_eq!(doubts(&store).await, [(copy.id, original)]);
    assert_eq!(store.record(copy.id).await.entry.possible_copy_of, Some(original));
    assert_eq!(
        store.take_in(vec![again(3, C, message("a"))]).await,
        0,
        "the second is still on the broker"
    );
    assert_eq!(store.count(&Filter::default()).await, 2);
}

pub(crate) async fn another_letter_is_not_taken_for_one_that_is_known(store: Store) {
    store.take_in(vec![first(1, A, message("a"))]).await;
    let mut other_header = message("a");
    other_header.headers.insert("name".to_owned(), "other".to_owned().into());
    for (id, other) in [
        (2, message("b")),
        (3, typed("a", "lab.order")),
        (4, message("a").with_body("other")),
        (5, other_header),
    ] {
        assert_eq!(store.take_in(vec![again(id, B, other)]).await, 1, "letter {id}");
    }
    let elsewhere = vec![again(6, B, message("a"))];
    assert_eq!(
        store.take_into("hospital/orders", elsewhere).await,
        1,
        "a letter of another queue is new"
    );
    assert_eq!(doubts(&store).await, []);
}

pub(crate) async fn a_letter_that_another_session_took_over_stays_on_the_broker(store: Store) {
    store.take_in(vec![first(1, A, message("a")), first(2, A, message("b"))]).await;
    // There are two equal letters. The other one was delivered before, to a process that died.
    assert_eq!(store.take_in(vec![again(3, B, message("a"))]).await, 0);
    let refused = removing(&store, &[2, 1]).await;
    let taken_over = letter(1, message("a")).id;
    assert!(
        matches!(refused, Err(CatalogueError::TakenOver(id)) if id == taken_over),
        "the broker has two and the store one: {refused:?}"
    );
    removing(&store, &[3]).await.expect("the session that took over can remove it");
    assert_eq!(
        store.take_in(vec![again(4, C, message("a"))]).await,
        1,
        "the letter that stayed is taken in"
    );
    assert_eq!(
        store.take_in(vec![again(5, C, message("b"))]).await,
        0,
        "a refused removal records nothing"
    );
}

pub(crate) async fn letters_with_an_id_and_without_one_are_not_compared(store: Store) {
    store.take_in(vec![letter(1, message("a"))]).await;
    assert_eq!(store.take_in(vec![again(2, A, message("a"))]).await, 1);
    assert_eq!(doubts(&store).await, []);
}

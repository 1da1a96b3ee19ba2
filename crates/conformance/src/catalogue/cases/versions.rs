//! Edited versions, and who may approve them.

use bezoar_core::{
    Body, DeadLetterId, Message, Settlement,
    catalogue::{
        CatalogueError, DeadLetterState, DeadLetterSummary, Filter, HeldLetters, OperationKind,
        Selection, Verb,
    },
};

use crate::catalogue::store::*;

async fn corrected(store: &Store, id: DeadLetterId) -> Message {
    store.record(id).await.message.with_body(Body::from("corrected"))
}

async fn edit(store: &Store, id: DeadLetterId, needs_approval: bool) -> DeadLetterSummary {
    let message = corrected(store, id).await;
    let edited = store.catalogue().edit(id, message, needs_approval, &action(Verb::Edit)).await;
    edited.expect("an open dead letter can be edited")
}

pub(crate) async fn a_version_takes_the_place_of_its_original_which_stays(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let version = edit(&store, original, false).await;
    assert_eq!((version.state, version.edited_from), (DeadLetterState::Open, Some(original)));
    let record = store.record(original).await;
    assert_eq!(record.entry.state, DeadLetterState::Edited);
    assert_eq!(record.versions, [version.id]);
    assert_eq!(record.message.body.reveal().as_ref(), CANARY.as_bytes());
    let record = store.record(version.id).await;
    assert_eq!(record.versions, [original]);
    assert_eq!(record.message.ledger.history().len(), 1);
    let replayed = store.run(replay(), everything()).await;
    assert_eq!((replayed.total, replayed.refused), (1, 1));
    let held = store.receive("lab", 9).await;
    assert_eq!(held[0].message.body.reveal().as_ref(), b"corrected");
    store.settle("lab", held, &Settlement::Complete).await;
    let edited = Filter { state: Some("edited"), ..Filter::default() };
    assert_eq!(store.count(&edited).await, 1);
}

pub(crate) async fn a_version_keeps_the_time_of_death(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let died_at = store.only().await.died_at;
    store.elapse(60).await;
    assert_eq!(edit(&store, original, false).await.died_at, died_at);
}

pub(crate) async fn a_version_that_dies_again_is_still_the_version(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let version = edit(&store, original, false).await.id;
    store.run(replay(), everything()).await;
    store.elapse(1).await;
    store.settle_all("lab", &dead("boom once more")).await;
    let again = store.all().await[0].id;
    let record = store.record(again).await;
    assert_eq!((record.entry.edited_from, record.versions), (Some(original), vec![original]));
    assert_eq!(record.earlier, [version]);
    assert_eq!(store.record(original).await.versions, [again]);
    store.run(OperationKind::Discard, Selection::Ids(vec![again])).await;
    assert_eq!(store.only().await.state, DeadLetterState::Open);
}

pub(crate) async fn an_edited_original_cannot_be_replayed(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    edit(&store, original, true).await;
    for selection in [Selection::Ids(vec![original]), everything()] {
        assert_eq!(store.plan(replay(), selection).await.total, 0);
    }
}

pub(crate) async fn an_edited_original_can_be_discarded(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let version = edit(&store, original, false).await.id;
    let edited = Filter { state: Some("edited"), ..Filter::default() };
    let planned = store
        .try_plan(
            OperationKind::Discard,
            Selection::Matching(edited.clone()),
            Some(store.count(&edited).await),
            HeldLetters::Refuse,
        )
        .await
        .expect("everything that is listed can be discarded");
    store.command(planned.id, bezoar_core::catalogue::OperationCommand::Run).await;
    store.advance(planned.id, 9).await;
    let left = store.only().await;
    assert_eq!((left.id, left.state), (version, DeadLetterState::Open));
}

pub(crate) async fn only_the_last_version_can_be_edited(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let first = edit(&store, original, false).await.id;
    let second = edit(&store, first, false).await.id;
    let message = corrected(&store, original).await;
    let refused = store.catalogue().edit(original, message, false, &action(Verb::Edit)).await;
    assert!(matches!(refused, Err(CatalogueError::Conflict(_))), "{refused:?}");
    for (id, versions) in
        [(original, [first, second]), (first, [original, second]), (second, [original, first])]
    {
        assert_eq!(store.record(id).await.versions, versions);
    }
}

pub(crate) async fn discarding_a_version_opens_its_original_again(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let version = edit(&store, original, false).await.id;
    store.run(OperationKind::Discard, Selection::Ids(vec![version])).await;
    let left = store.only().await;
    assert_eq!((left.id, left.state), (original, DeadLetterState::Open));
}

pub(crate) async fn an_unapproved_version_waits_for_somebody_else(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let version = edit(&store, original, true).await;
    assert_eq!(version.state, DeadLetterState::Unapproved);
    let unapproved = Filter { state: Some("unapproved"), ..Filter::default() };
    assert_eq!(store.list(&unapproved).await, std::slice::from_ref(&version));
    let planned = store.plan(replay(), Selection::Ids(vec![version.id])).await;
    assert_eq!((planned.total, planned.refused), (0, 1));
    let approve =
        async |actor| store.catalogue().approve(version.id, &action_of(actor, Verb::Approve)).await;
    let refused = approve("ann").await;
    assert!(matches!(refused, Err(CatalogueError::Conflict(_))), "its editor cannot approve it");
    assert_eq!(
        approve("bob").await.expect("somebody else can approve it").state,
        DeadLetterState::Open
    );
    assert!(approve("bob").await.is_err(), "it is already approved");
    assert_eq!(store.plan(replay(), everything()).await.total, 1);
}

pub(crate) async fn a_version_of_an_unapproved_one_approves_nothing(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let first = edit(&store, original, true).await.id;
    let second = edit(&store, first, false).await.id;
    store.run(OperationKind::Discard, Selection::Ids(vec![second])).await;
    assert_eq!(store.record(first).await.entry.state, DeadLetterState::Unapproved);
}

pub(crate) async fn what_is_taken_or_missing_cannot_be_edited(store: Store) {
    let id = store.kill("lab", message("a"), "boom").await;
    let edit = async |id| {
        store.catalogue().edit(id, message("a"), false, &action(Verb::Edit)).await.map(|_| ())
    };
    let refused = edit(no_dead_letter()).await;
    assert!(matches!(refused, Err(CatalogueError::NoDeadLetter(id)) if id == no_dead_letter()));
    let operation = store.plan(replay(), everything()).await.id;
    let refused = edit(id).await;
    assert!(matches!(refused, Err(CatalogueError::Taken { operation: by, .. }) if by == operation));
}

pub(crate) async fn an_edit_that_does_not_fit_is_refused(store: Store) {
    let id = store.kill("lab", message("a"), "boom").await;
    let edited = message("a").with_header("", "a header without a name");
    assert!(store.catalogue().edit(id, edited, false, &action(Verb::Edit)).await.is_err());
    assert_eq!(store.only().await.state, DeadLetterState::Open);
}

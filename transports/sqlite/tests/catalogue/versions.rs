//! Edited versions, and who may approve them.

use bezoar_core::{
    Body, DeadLetterAccess, DeadLetterId, DeadLetterIds, Message, Settlement,
    catalogue::{
        CatalogueError, DeadLetterState, DeadLetterSummary, Filter, OperationKind, Selection, Verb,
    },
};

use super::{census, ward::*};

async fn mended(ward: &Ward, id: DeadLetterId) -> Message {
    let message = ward.store.record(id).await.unwrap().message;
    message.with_body(Body::from("mended"))
}

async fn edit(ward: &Ward, id: DeadLetterId, needs_approval: bool) -> DeadLetterSummary {
    let message = mended(ward, id).await;
    ward.store.edit(id, message, needs_approval, &act(Verb::Edit)).await.unwrap()
}

#[tokio::test]
async fn a_version_takes_the_place_of_its_original_which_stays() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    let version = edit(&ward, original, false).await;
    assert_eq!((version.state, version.edited_from), (DeadLetterState::Open, Some(original)));
    let record = ward.store.record(original).await.unwrap();
    assert_eq!(record.entry.state, DeadLetterState::Edited);
    assert_eq!(record.lineage, [version.id]);
    assert_eq!(record.message.body.reveal().as_ref(), CANARY.as_bytes());
    let record = ward.store.record(version.id).await.unwrap();
    assert_eq!(record.lineage, [original]);
    assert_eq!(record.message.ledger.history().len(), 1);
    let replayed = ward.run(replay(), everything()).await;
    assert_eq!((replayed.total, replayed.refused), (1, 1));
    let held = ward.receive("lab", 9).await;
    assert_eq!(held[0].message.body.reveal().as_ref(), b"mended");
    ward.settle("lab", held, &Settlement::Complete).await;
    assert_eq!(ward.list(&Filter { state: Some("edited"), ..Filter::default() }).await.len(), 1);
    census::check(&ward);
}

#[tokio::test]
async fn a_version_that_is_replayed_and_dies_again_is_still_the_version() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    edit(&ward, original, false).await;
    ward.run(replay(), everything()).await;
    ward.settle_all("lab", &dead("boom once more")).await;
    let again = ward.latest().await.id;
    let record = ward.store.record(again).await.unwrap();
    assert_eq!((record.entry.edited_from, record.lineage), (Some(original), vec![original]));
    assert_eq!(ward.store.record(original).await.unwrap().lineage, [again]);
    ward.run(OperationKind::Discard, Selection::Ids(vec![again])).await;
    assert_eq!(ward.store.record(original).await.unwrap().entry.state, DeadLetterState::Open);
    census::check(&ward);
}

#[tokio::test]
async fn the_original_takes_part_in_no_operation_and_no_replay() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    edit(&ward, original, true).await;
    for selection in [Selection::Ids(vec![original]), everything()] {
        assert_eq!(ward.plan(replay(), selection).await.total, 0);
    }
    assert_eq!(ward.store.replay(&queue("lab"), &DeadLetterIds::All).await.unwrap(), 0);
}

#[tokio::test]
async fn a_version_of_a_version_makes_a_chain_and_only_the_last_can_be_edited() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    let first = edit(&ward, original, false).await.id;
    let second = edit(&ward, first, false).await.id;
    let message = mended(&ward, original).await;
    let refused = ward.store.edit(original, message, false, &act(Verb::Edit)).await.unwrap_err();
    assert!(matches!(refused, CatalogueError::Conflict(_)), "{refused}");
    for (id, lineage) in
        [(original, [first, second]), (first, [original, second]), (second, [original, first])]
    {
        assert_eq!(ward.store.record(id).await.unwrap().lineage, lineage);
    }
}

#[tokio::test]
async fn removing_a_version_opens_its_original_again() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    for way in 0..2 {
        let version = edit(&ward, original, false).await.id;
        if way == 0 {
            ward.run(OperationKind::Discard, Selection::Ids(vec![version])).await;
        } else {
            ward.store.discard(&queue("lab"), &DeadLetterIds::Ids(vec![version])).await.unwrap();
        }
        assert_eq!(ward.latest().await.id, original);
        assert_eq!(ward.latest().await.state, DeadLetterState::Open);
    }
    census::check(&ward);
}

#[tokio::test]
async fn an_unapproved_version_waits_for_somebody_else() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    let version = edit(&ward, original, true).await;
    assert_eq!(version.state, DeadLetterState::Unapproved);
    let unapproved = Filter { state: Some("unapproved"), ..Filter::default() };
    assert_eq!(ward.list(&unapproved).await, std::slice::from_ref(&version));
    assert_eq!(ward.plan(replay(), Selection::Ids(vec![version.id])).await.refused, 1);
    let approve = async |who| ward.store.approve(version.id, &act_of(who, Verb::Approve)).await;
    let refused = approve("ann").await.unwrap_err();
    assert!(refused.to_string().contains("somebody else"), "{refused}");
    assert_eq!(approve("bob").await.unwrap().state, DeadLetterState::Open);
    assert!(approve("bob").await.is_err(), "it is approved");
    assert_eq!(ward.plan(replay(), everything()).await.total, 1);
}

#[tokio::test]
async fn a_version_of_an_unapproved_one_does_not_make_that_approved() {
    let ward = Ward::new().await;
    let original = ward.kill("lab", message("a"), "boom").await;
    let first = edit(&ward, original, true).await.id;
    let second = edit(&ward, first, false).await.id;
    ward.store.discard(&queue("lab"), &DeadLetterIds::Ids(vec![second])).await.unwrap();
    assert_eq!(ward.latest().await.state, DeadLetterState::Unapproved);
}

#[tokio::test]
async fn what_is_taken_missing_or_too_large_cannot_be_edited() {
    let ward = Ward::new().await;
    let id = ward.kill("lab", message("a"), "boom").await;
    let large = message("a").with_body(Body::from(vec![0; 17 * 1024 * 1024]));
    assert!(ward.store.edit(id, large, false, &act(Verb::Edit)).await.is_err());
    let missing = DeadLetterId(99);
    let refused = ward.store.edit(missing, message("a"), false, &act(Verb::Edit)).await;
    assert!(matches!(refused, Err(CatalogueError::NoDeadLetter(id)) if id == missing));
    let operation = ward.plan(replay(), everything()).await.id;
    let refused = ward.store.edit(id, message("a"), false, &act(Verb::Edit)).await;
    assert!(matches!(refused, Err(CatalogueError::Taken { operation: by, .. }) if by == operation));
    census::check(&ward);
}

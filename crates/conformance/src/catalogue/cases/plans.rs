//! Which dead letters a plan selects.

use bezoar_core::catalogue::{
    CatalogueError, DeadLetterState, Filter, HeldLetters, ItemState, OperationCommand,
    OperationKind, OperationState, ReplayIds, Selection, Verb,
};

use crate::catalogue::store::*;

pub(crate) async fn what_dies_after_the_plan_does_not_join(store: Store) {
    let ids = store.kill_many("lab", 3, "boom").await;
    let planned = store.plan(replay(), everything()).await;
    store.kill("lab", message("late"), "boom").await;
    assert_eq!((planned.state, planned.total, planned.refused), (OperationState::Planned, 3, 0));
    assert_eq!(planned.queues, [(queue("lab"), 3)]);
    assert_eq!((planned.actor.as_str(), planned.reason.as_str()), ("ann", "a test"));
    let items = store.items(planned.id).await;
    assert_eq!(items.iter().map(|item| item.dead_letter).collect::<Vec<_>>(), ids);
    assert_eq!(items.iter().map(|item| item.place).collect::<Vec<_>>(), [1, 2, 3]);
    store.command(planned.id, OperationCommand::Run).await;
    assert_eq!(store.advance(planned.id, 100).await.done, 3);
    assert_eq!(store.all().await.len(), 1);
}

pub(crate) async fn of_two_plans_at_once_one_gets_each_letter(store: Store) {
    store.kill_many("lab", 40, "boom").await;
    let (one, other) = tokio::join!(
        store.try_plan(replay(), everything(), None, HeldLetters::Skip),
        store.try_plan(OperationKind::Discard, everything(), None, HeldLetters::Skip),
    );
    let (one, other) = (one.expect("a plan"), other.expect("a plan"));
    assert_eq!(one.total + other.total, 40);
}

pub(crate) async fn letters_held_by_another_operation_are_named_and_refused(store: Store) {
    let ids = store.kill_many("lab", 3, "boom").await;
    let first = store.plan(replay(), Selection::Ids(vec![ids[0], ids[1], ids[0]])).await;
    assert_eq!(first.total, 2, "each once");
    for selection in [everything(), Selection::Ids(ids)] {
        let refused = store.try_plan(replay(), selection, None, HeldLetters::Refuse).await;
        match refused {
            Err(CatalogueError::Held { held }) => assert_eq!(held, [(first.id, 2)]),
            other => panic!("letters that are held are refused, got {other:?}"),
        }
    }
    assert_eq!(store.verbs().await, ["replay"], "a refused plan is not in the audit log");
}

pub(crate) async fn letters_held_by_another_operation_can_be_left_out(store: Store) {
    let ids = store.kill_many("lab", 3, "boom").await;
    let first = store.plan(replay(), Selection::Ids(ids[..2].to_vec())).await;
    let second = store.plan(replay(), everything()).await;
    assert_eq!((second.total, second.refused), (1, 2));
    assert_eq!(second.held, [(first.id, 2)], "it names the operation that holds the others");
    assert_eq!(store.operation(second.id).await.held, second.held, "also later");
    let held = Filter { state: Some("held"), ..Filter::default() };
    assert_eq!(store.list(&held).await.len(), 3);
    store.command(first.id, OperationCommand::Cancel).await;
    let open = Filter { state: Some("open"), ..Filter::default() };
    assert_eq!(store.list(&open).await.len(), 2, "a cancelled operation frees what it held");
    assert!(store.items(first.id).await.iter().all(|item| item.state == ItemState::Left));
    let third = store.plan(OperationKind::Discard, everything()).await;
    assert_eq!((third.total, third.refused), (2, 1));
    let letters = store.all().await;
    assert!(letters.iter().any(|it| it.state == DeadLetterState::Held(second.id)));
}

pub(crate) async fn a_missing_id_plans_nothing(store: Store) {
    let ids = store.kill_many("lab", 2, "boom").await;
    let selection = Selection::Ids(vec![ids[0], no_dead_letter()]);
    let refused = store.try_plan(replay(), selection, None, HeldLetters::Refuse).await;
    assert!(matches!(refused, Err(CatalogueError::NoDeadLetter(id)) if id == no_dead_letter()));
    assert_eq!(store.catalogue().operations(9).await.expect("a list"), []);
    assert!(store.all().await.iter().all(|it| it.state == DeadLetterState::Open));
    assert_eq!(store.verbs().await, [""; 0]);
}

pub(crate) async fn another_number_than_expected_plans_nothing(store: Store) {
    let ids = store.kill_many("lab", 3, "boom").await;
    for selection in [everything(), Selection::Ids(ids)] {
        let refused = store.try_plan(replay(), selection, Some(2), HeldLetters::Refuse).await;
        let named = matches!(refused, Err(CatalogueError::Unexpected { expected: 2, found: 3 }));
        assert!(named, "{refused:?}");
    }
    assert_eq!(store.catalogue().operations(9).await.expect("a list"), []);
    let planned = store.try_plan(replay(), everything(), Some(3), HeldLetters::Refuse).await;
    assert_eq!(planned.expect("the number is as expected").total, 3);
}

pub(crate) async fn an_impossible_rate_is_refused(store: Store) {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let kind = OperationKind::Replay {
            canary: 0,
            per_second: Some(rate),
            stop_after: None,
            ids: ReplayIds::Same,
        };
        let refused = store.try_plan(kind, everything(), None, HeldLetters::Refuse).await;
        assert!(matches!(refused, Err(CatalogueError::Invalid(_))), "{rate}: {refused:?}");
    }
}

pub(crate) async fn an_empty_selection_has_ended_at_once(store: Store) {
    for kind in [replay(), OperationKind::Discard] {
        assert_eq!(store.plan(kind, everything()).await.state, OperationState::Ended);
    }
}

pub(crate) async fn a_discard_takes_everything_that_is_counted(store: Store) {
    let original = store.kill("lab", message("a"), "boom").await;
    let version = store.record(original).await.message;
    let edit = store.catalogue();
    edit.edit(original, version, true, &action(Verb::Edit)).await.expect("a version");
    let counted = store.count(&Filter::default()).await;
    assert_eq!(counted, 2, "the original and its version are listed");
    let planned =
        store.try_plan(OperationKind::Discard, everything(), Some(counted), HeldLetters::Refuse);
    let planned = planned.await.expect("everything that is counted can be discarded");
    store.command(planned.id, OperationCommand::Run).await;
    assert_eq!(store.advance(planned.id, 10).await.operation.state, OperationState::Ended);
    assert_eq!(store.all().await, []);
}

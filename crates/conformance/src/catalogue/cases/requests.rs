//! Repetitions of a request plan no second operation.

use bezoar_core::{
    RequestKey,
    catalogue::{
        AuditedAction, CatalogueError, HeldLetters, Operation, OperationCommand, OperationKind,
        OperationPlan, OperationRequest, Selection, Verb,
    },
};

use crate::catalogue::store::*;

fn request(key: &str, content: u8) -> OperationRequest {
    OperationRequest { key: RequestKey::new(key).expect("a key"), digest: [content; 32] }
}

fn plan(request: OperationRequest) -> OperationPlan {
    OperationPlan {
        kind: OperationKind::Discard,
        selection: everything(),
        expect: None,
        held: HeldLetters::Skip,
        request: Some(request),
    }
}

async fn planned(store: &Store, plan: &OperationPlan) -> Result<Operation, CatalogueError> {
    store.catalogue().plan(plan, &action(Verb::Discard)).await
}

async fn known(store: &Store, request: &OperationRequest) -> Option<Operation> {
    let actor = action(Verb::Discard).actor;
    store.catalogue().requested(&actor, request).await.expect("a request can be looked up")
}

async fn count(store: &Store) -> usize {
    store.catalogue().operations(9).await.expect("a list").len()
}

pub(crate) async fn a_repeated_request_plans_nothing(store: Store) {
    store.kill_many("lab", 3, "boom").await;
    let request = request("k-1", 1);
    assert_eq!(known(&store, &request).await, None);
    let first = planned(&store, &plan(request.clone())).await.expect("a plan");
    let repeated = planned(&store, &plan(request.clone())).await;
    assert!(
        matches!(repeated, Err(CatalogueError::Repeated(id)) if id == first.id),
        "{repeated:?}"
    );
    store.command(first.id, OperationCommand::Run).await;
    store.advance(first.id, 10).await;
    let ended = known(&store, &request).await.expect("it is known after it has ended");
    assert_eq!((ended.id, ended.done), (first.id, 3));
    assert_eq!(count(&store).await, 1);
}

pub(crate) async fn of_equal_requests_at_once_one_plans(store: Store) {
    store.kill_many("lab", 3, "boom").await;
    let plan = plan(request("k-1", 1));
    let (one, two, three) =
        tokio::join!(planned(&store, &plan), planned(&store, &plan), planned(&store, &plan));
    let done = [one, two, three].into_iter().filter(Result::is_ok).count();
    assert_eq!((done, count(&store).await), (1, 1));
}

pub(crate) async fn a_key_of_another_request_is_refused(store: Store) {
    store.kill_many("lab", 1, "boom").await;
    planned(&store, &plan(request("k-1", 1))).await.expect("a plan");
    let other = request("k-1", 2);
    let refused = planned(&store, &plan(other.clone())).await;
    assert!(matches!(refused, Err(CatalogueError::KeyReused)), "{refused:?}");
    let refused = store.catalogue().requested(&action(Verb::Discard).actor, &other).await;
    assert!(matches!(refused, Err(CatalogueError::KeyReused)), "{refused:?}");
    assert_eq!(count(&store).await, 1);
}

pub(crate) async fn each_actor_has_its_own_keys(store: Store) {
    store.kill_many("lab", 1, "boom").await;
    let request = request("k-1", 1);
    let first = planned(&store, &plan(request.clone())).await.expect("a plan");
    let bob = AuditedAction { actor: "bob".to_owned(), ..action(Verb::Discard) };
    assert_eq!(store.catalogue().requested("bob", &request).await.expect("a lookup"), None);
    let second = store.catalogue().plan(&plan(request.clone()), &bob).await.expect("a plan");
    assert_ne!(first.id, second.id);
    assert_eq!(known(&store, &request).await.map(|it| it.id), Some(first.id));
}

pub(crate) async fn a_request_that_was_refused_can_be_repeated(store: Store) {
    let request = request("k-1", 1);
    let missing = OperationPlan {
        selection: Selection::Ids(vec![no_dead_letter()]),
        ..plan(request.clone())
    };
    let refused = planned(&store, &missing).await;
    assert!(matches!(refused, Err(CatalogueError::NoDeadLetter(_))), "{refused:?}");
    assert_eq!(known(&store, &request).await, None);
    store.kill_many("lab", 1, "boom").await;
    let later = planned(&store, &plan(request.clone())).await.expect("nothing was planned before");
    assert_eq!(known(&store, &request).await.map(|it| it.id), Some(later.id));
}

pub(crate) async fn a_request_is_known_after_a_restart(mut store: Store) {
    store.kill_many("lab", 2, "boom").await;
    let request = request("k-1", 1);
    let first = planned(&store, &plan(request.clone())).await.expect("a plan");
    store.restart().await;
    assert_eq!(known(&store, &request).await.map(|it| it.id), Some(first.id));
}

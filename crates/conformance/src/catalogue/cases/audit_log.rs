//! The audit log.

use bezoar_core::catalogue::{
    AuditBreak, AuditHead, CatalogueError, CauseState, OperationCommand, TEXT_LIMIT_BYTES, Verb,
};

use crate::catalogue::store::*;

/// Verifies the whole log, in small pages.
async fn verified(store: &Store) -> Result<AuditHead, AuditBreak> {
    let mut head = AuditHead::START;
    loop {
        let page = store.catalogue().audit(head.count, 3).await.expect("the log can be read");
        let (entries, kept) = page;
        if entries.is_empty() {
            return head.ends_at(&kept).map(|()| head);
        }
        head = entries.iter().try_fold(head, |head, entry| head.follow(entry))?;
    }
}

pub(crate) async fn every_action_is_in_the_log_once_and_in_order(store: Store) {
    let catalogue = store.catalogue();
    let id = store.kill("lab", message("a"), "boom").await;
    let record = store.record(id).await;
    catalogue.log(&action(Verb::Reveal)).await.expect("logged");
    let version = catalogue.edit(id, record.message.clone(), true, &action(Verb::Edit)).await;
    let version = version.expect("a version").id;
    catalogue.approve(version, &action_of("bob", Verb::Approve)).await.expect("approved");
    let cause = &record.entry.cause;
    let marked = catalogue.mark(cause, CauseState::Resolved, None, &action(Verb::Mark)).await;
    marked.expect("marked");
    catalogue.set("a", Some("b"), &action(Verb::Pause)).await.expect("set");
    let import = vec![("one".to_owned(), record)];
    catalogue.import(import, &action(Verb::Import)).await.expect("imported");
    let planned = store.plan(replay(), everything()).await.id;
    store.command(planned, OperationCommand::Run).await;
    let expected = ["reveal", "edit", "approve", "mark", "pause", "import", "replay", "replay"];
    assert_eq!(store.verbs().await, expected);
    assert_eq!(verified(&store).await.expect("the chain holds").count, 8);
}

pub(crate) async fn an_entry_has_what_was_said_and_when(store: Store) {
    store.catalogue().log(&action_of("bob", Verb::Reveal)).await.expect("logged");
    let (entries, _) = store.catalogue().audit(0, 9).await.expect("the log can be read");
    let entry = &entries[0];
    assert_eq!((entry.number, entry.at), (1, store.now()));
    assert_eq!((entry.actor.as_str(), entry.address.as_str()), ("bob", "127.0.0.1"));
    assert_eq!((entry.target.as_str(), entry.reason.as_str()), ("it", "a test"));
}

pub(crate) async fn many_at_once_write_one_chain(store: Store) {
    let mut all = tokio::task::JoinSet::new();
    for actor in 0..50 {
        let catalogue = store.catalogue();
        let action = action_of(&actor.to_string(), Verb::Reveal);
        all.spawn(async move { catalogue.log(&action).await.expect("logged") });
    }
    all.join_all().await;
    assert_eq!(verified(&store).await.expect("the chain holds").count, 50);
}

pub(crate) async fn a_text_that_is_too_long_is_refused_with_its_action(store: Store) {
    let mut long = action(Verb::Reveal);
    long.reason = "x".repeat(TEXT_LIMIT_BYTES + 1);
    let refused = store.catalogue().log(&long).await;
    assert!(matches!(refused, Err(CatalogueError::Invalid(_))), "{refused:?}");
    assert_eq!(store.verbs().await, [""; 0]);
}

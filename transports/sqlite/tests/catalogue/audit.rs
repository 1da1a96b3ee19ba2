//! The audit log: written with every action, and harm to it is found.

use bezoar_core::catalogue::{
    AuditBreak, AuditHead, CauseState, Filter, OperationCommand, OperationKind, Selection, Verb,
};

use super::ward::*;

/// Reads the log page by page and follows the chain.
async fn verified(ward: &Ward) -> Result<(), AuditBreak> {
    let mut head = AuditHead::START;
    loop {
        let (entries, kept) = ward.store.audit(head.count, 3).await.unwrap();
        if entries.is_empty() {
            return head.ends_at(&kept);
        }
        head = entries.iter().try_fold(head, |head, entry| head.follow(entry))?;
    }
}

async fn written() -> Ward {
    let ward = Ward::new().await;
    for number in 0..7 {
        let who = format!("operator {number}");
        ward.store.log(&act_of(&who, Verb::Reveal)).await.unwrap();
    }
    ward
}

#[tokio::test]
async fn every_act_is_in_the_log_once_and_in_order() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 2, "boom").await;
    ward.store.log(&act(Verb::Reveal)).await.unwrap();
    let message = ward.store.record(ids[0]).await.unwrap().message;
    let version = ward.store.edit(ids[0], message, true, &act(Verb::Edit)).await.unwrap();
    ward.store.approve(version.id, &act_of("bob", Verb::Approve)).await.unwrap();
    ward.store
        .mark(&version.cause, CauseState::Resolved, Some(""), &act(Verb::Mark))
        .await
        .unwrap();
    ward.store.set("a", Some("b"), &act(Verb::Pause)).await.unwrap();
    ward.store.import(Vec::new(), &act(Verb::Import)).await.unwrap();
    let planned = ward.plan(OperationKind::Discard, Selection::Ids(vec![ids[1]])).await.id;
    ward.command(planned, OperationCommand::Run).await;
    ward.advance(planned, 9).await;
    let (entries, head) = ward.store.audit(0, 100).await.unwrap();
    let verbs: Vec<_> = entries.iter().map(|entry| entry.verb.as_str()).collect();
    let expected = ["reveal", "edit", "approve", "mark", "pause", "import", "replay", "replay"];
    assert_eq!(verbs, expected);
    assert_eq!(entries[2].actor, "bob");
    assert_eq!(head.count, 8);
    assert_eq!(verified(&ward).await, Ok(()));
}

#[tokio::test]
async fn harm_by_sql_is_found() {
    for (harm, expected) in [
        ("UPDATE bezoar_audit SET why = 'no reason' WHERE number = 3", AuditBreak::Changed(3)),
        ("UPDATE bezoar_audit SET at = at + 1 WHERE number = 4", AuditBreak::Changed(4)),
        ("UPDATE bezoar_audit SET hash = x'00' WHERE number = 4", AuditBreak::Changed(4)),
        (
            "UPDATE bezoar_audit SET who = CAST(x'ff' AS TEXT) WHERE number = 4",
            AuditBreak::Changed(4),
        ),
        ("DELETE FROM bezoar_audit WHERE number = 5", AuditBreak::Missing(5)),
        ("DELETE FROM bezoar_audit WHERE number >= 6", AuditBreak::Missing(6)),
        ("DELETE FROM bezoar_audit", AuditBreak::Missing(1)),
        (
            "UPDATE bezoar_audit SET number = 100 WHERE number = 2;
             UPDATE bezoar_audit SET number = 2 WHERE number = 3;
             UPDATE bezoar_audit SET number = 3 WHERE number = 100",
            AuditBreak::Changed(2),
        ),
        ("UPDATE bezoar_meta SET value = x'00' WHERE name = 'audit'", AuditBreak::Added(1)),
        ("DELETE FROM bezoar_meta WHERE name = 'audit'", AuditBreak::Added(1)),
    ] {
        let ward = written().await;
        assert_eq!(verified(&ward).await, Ok(()));
        ward.sql(harm);
        assert_eq!(verified(&ward).await, Err(expected), "{harm}");
    }
}

#[tokio::test]
async fn nothing_is_done_once_the_end_of_the_log_is_lost() {
    let ward = written().await;
    ward.sql("DELETE FROM bezoar_meta WHERE name = 'audit'");
    assert!(ward.store.log(&act(Verb::Reveal)).await.is_err());
}

#[tokio::test]
async fn operators_at_once_write_one_chain() {
    let ward = Ward::new().await;
    let acts: Vec<_> = (0..50).map(|who| act_of(&who.to_string(), Verb::Reveal)).collect();
    let mut all = tokio::task::JoinSet::new();
    for action in acts {
        let store = ward.store.clone();
        all.spawn(async move { store.log(&action).await.unwrap() });
    }
    all.join_all().await;
    assert_eq!(verified(&ward).await, Ok(()));
    assert_eq!(ward.one("SELECT count(DISTINCT who) FROM bezoar_audit"), 50);
}

#[tokio::test]
async fn a_text_that_is_too_long_is_refused_with_its_act() {
    let ward = Ward::new().await;
    let mut long = act(Verb::Reveal);
    long.reason = "x".repeat(5_000);
    assert!(ward.store.log(&long).await.is_err());
    assert_eq!(ward.store.audit(0, 9).await.unwrap().1, AuditHead::START);
    assert_eq!(ward.store.count(&Filter::default()).await.unwrap().count, 0);
}

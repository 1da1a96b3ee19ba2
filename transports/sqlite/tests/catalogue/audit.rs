//! The audit log: every action is written, and tampering is detected.

use bezoar_core::catalogue::{AuditBreak, AuditHead, Verb};

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

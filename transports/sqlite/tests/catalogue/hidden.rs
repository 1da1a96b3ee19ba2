//! Nothing sensitive is shown by accident.

use bezoar_core::catalogue::{CauseState, Filter, Verb};

use super::ward::*;

#[tokio::test]
async fn neither_debug_nor_any_table_of_the_catalogue_shows_a_body_a_header_or_a_detail() {
    let ward = Ward::new().await;
    let id = ward.kill("lab", message("a"), &format!("no patient {CANARY}")).await;
    let record = ward.store.record(id).await.unwrap();
    let edited = record.message.clone();
    let version = ward.store.edit(id, edited, true, &act(Verb::Edit)).await.unwrap();
    ward.store.approve(version.id, &act_of("bob", Verb::Approve)).await.unwrap();
    let operation = ward.run(replay(), everything()).await;
    ward.settle_all("lab", &dead(CANARY)).await;
    let cause = ward.latest().await.cause;
    ward.store
        .mark(&cause, CauseState::Acknowledged, Some("seen"), &act(Verb::Mark))
        .await
        .unwrap();
    let shown = format!(
        "{:?} {:?} {record:#?} {version:?} {operation:?} {:?} {:?} {:?} {:?}",
        ward.list(&Filter::default()).await,
        ward.store.causes(&Filter::default(), 9).await.unwrap(),
        ward.items(operation.id).await,
        ward.store.audit(0, 99).await.unwrap(),
        ward.store.record(version.id).await.unwrap_err(),
        ward.store,
    );
    assert!(shown.contains("lab.result") && !shown.contains(CANARY), "{shown}");
    for table in ["dead", "causes", "operations", "items", "audit", "settings", "meta"] {
        let query = format!("SELECT * FROM bezoar_{table}");
        let connection = connection(&ward.path());
        let mut select = connection.prepare(&query).unwrap();
        let columns = select.column_count();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                let value = row.get_ref(column).unwrap();
                let bytes = value.as_bytes().map(<[u8]>::to_vec).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!text.contains("CANARY"), "{table}: {text}");
            }
        }
    }
}

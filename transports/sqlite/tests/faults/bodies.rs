//! Bodies of every size.

use bezoar_core::{ErrorKind, QueueAdmin, Transport};
use bezoar_sqlite::Options;

use super::support::*;

#[tokio::test]
async fn a_body_of_any_size_up_to_the_limit_comes_back_byte_for_byte() {
    let folder = folder();
    let limit = 9_000; // more than two pages of the file
    let transport =
        open_transport(Options { max_message_bytes: limit, ..Options::new(file_in(&folder)) })
            .await;
    let sizes = (0..70).chain(4_000..4_200).chain([limit - 1, limit]);
    let sent: Vec<_> = sizes.map(|size| message(&format!("{size}"), noise(size))).collect();
    for batch in sent.chunks(50) {
        all_accepted(transport.send(&queue().into(), &outgoing(batch)).await);
    }
    for expected in &sent {
        let received = receive_one(&transport).await;
        assert_eq!((&received.id, &received.body), (&expected.id, &expected.body));
    }
}

#[tokio::test]
async fn a_byte_more_than_the_limit_is_refused_by_name_and_its_neighbours_are_not() {
    let folder = folder();
    let transport =
        open_transport(Options { max_message_bytes: 100, ..Options::new(file_in(&folder)) }).await;
    let batch = [message("a", noise(100)), message("too-big", noise(101)), message("b", noise(0))];
    let mut results = transport.send(&queue().into(), &outgoing(&batch)).await;
    let refused = results.remove(1).unwrap_err();
    for part in ["too-big", "101 bytes", "at most 100", "sqlite"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    all_accepted(results);
    assert_eq!(ids(&receive(&transport, 10).await), ["a", "b"]);
}

#[tokio::test]
async fn a_body_of_16_mib_comes_back_and_a_byte_more_is_refused() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    let limit = 16 * 1024 * 1024;
    let largest = message("largest", noise(limit));
    send(&transport, &largest).await.unwrap();
    let refused = send(&transport, &message("larger", noise(limit + 1))).await.unwrap_err();
    let expected =
        ErrorKind::TooLarge { id: id("larger"), actual_bytes: limit + 1, limit_bytes: limit };
    assert_eq!(refused.kind, expected);
    assert!(receive_one(&transport).await.body == largest.body, "the bytes differ");
    assert_eq!(transport.depth(&queue()).await.unwrap().ready, Some(0));
}

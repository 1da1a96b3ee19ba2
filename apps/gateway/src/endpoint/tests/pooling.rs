//! Connections that are kept, and what happens when the other side did not keep them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Mutex, mpsc},
};

use super::{
    LONG, deliver, endpoint, message, send,
    server::{Server, answering, read_request},
    shown,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Answers one request on the connection, properly.
async fn answer(stream: &mut TcpStream) {
    read_request(stream).await;
    stream.write_all(OK).await.unwrap();
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_costs_nothing() {
    let (closed, mut news) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream| {
        let closed = closed.clone();
        async move {
            answer(&mut stream).await;
            drop(stream);
            closed.send(()).unwrap();
        }
    })
    .await;
    let endpoint = endpoint(&server.url(), LONG);
    for _ in 0..20 {
        send(&endpoint).await.unwrap();
        news.recv().await.unwrap(); // closed before the next request begins
    }
    assert_eq!(server.connections().accepted, 20);
}

/// Answers once on each connection, reads the next request there, and closes.
async fn closing_after_each_reply() -> (Server, Arc<std::sync::Mutex<Vec<String>>>) {
    let seen = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let server = Server::start({
        let seen = seen.clone();
        move |mut stream| {
            let seen = seen.clone();
            async move {
                for answered in [true, false] {
                    let request = read_request(&mut stream).await;
                    let request = String::from_utf8_lossy(&request).into_owned();
                    seen.lock().unwrap().push(request);
                    if answered {
                        stream.write_all(OK).await.unwrap();
                    }
                }
            }
        }
    })
    .await;
    (server, seen)
}

#[tokio::test]
async fn a_request_on_a_stale_connection_is_repeated_on_a_new_one() {
    let (server, seen) = closing_after_each_reply().await;
    let endpoint = endpoint(&server.url(), LONG);
    for _ in 0..20 {
        send(&endpoint).await.unwrap();
    }
    let seen = seen.lock().unwrap();
    let redelivered = |request: &&String| request.contains("bezoar-redelivered: true");
    let again = seen.iter().filter(redelivered).count();
    assert_eq!((again, server.connections().accepted), (10, 20), "{} requests", seen.len());
}

#[tokio::test]
async fn a_request_is_not_sent_a_third_time() {
    let (first, requests) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let server = Server::start({
        let requests = requests.clone();
        move |mut stream| {
            let answers = first.fetch_add(1, Ordering::SeqCst) == 0;
            let requests = requests.clone();
            async move {
                if answers {
                    answer(&mut stream).await;
                }
                if !read_request(&mut stream).await.is_empty() {
                    requests.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    })
    .await;
    let endpoint = endpoint(&server.url(), LONG);
    send(&endpoint).await.unwrap();
    let sent = shown(&send(&endpoint).await);
    assert_eq!(sent, "transient (reply.reset), uses up no retry");
    assert_eq!((requests.load(Ordering::SeqCst), server.connections().accepted), (2, 2));
}

#[tokio::test]
async fn bytes_after_a_reply_are_not_the_next_reply() {
    let server = Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok surplus").await;
    let endpoint = endpoint(&server.url(), LONG);
    for _ in 0..3 {
        send(&endpoint).await.unwrap();
        server.all_ended().await; // the client hangs up by itself
    }
    assert_eq!(server.connections().accepted, 3);
}

#[tokio::test]
async fn a_delivery_that_is_dropped_closes_its_connection() {
    let (arrived, mut news) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream| {
        let arrived = arrived.clone();
        async move {
            read_request(&mut stream).await;
            arrived.send(()).unwrap();
            super::server::hung_up(&mut stream).await;
        }
    })
    .await;
    let endpoint = endpoint(&server.url(), LONG);
    tokio::select! {
        _ = send(&endpoint) => panic!("nobody answers"),
        arrived = news.recv() => arrived.unwrap(),
    }
    server.all_ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_a_time_share_few_connections() {
    let (server, requests) = answering(|| http::StatusCode::OK).await;
    let endpoint = endpoint(&server.url(), LONG);
    let left = Arc::new(AtomicUsize::new(2_000));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (endpoint, left) = (endpoint.clone(), left.clone());
        tasks.spawn(async move {
            while left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
            {
                deliver(&endpoint, message(vec![1; 100])).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(requests.len(), 2_000);
    // A few more than run at a time: a connection may come about when another is free already.
    assert!(server.connections().accepted <= 64, "{:?}", server.connections());
    drop(endpoint);
    server.all_ended().await;
}

#[tokio::test]
async fn one_silent_endpoint_does_not_hold_up_another() {
    let silent =
        Server::start(|mut stream| async move { super::server::hung_up(&mut stream).await }).await;
    let (server, _requests) = answering(|| http::StatusCode::OK).await;
    let client = super::client();
    let with = |url: &str| {
        super::Endpoint::new(super::options(url, LONG), client.clone(), Arc::new(super::FixedClock))
    };
    let (stuck, well) = (with(&silent.url()), with(&server.url()));
    let done = Mutex::new(0);
    let hanging = futures_util::future::join_all((0..100).map(|_| send(&stuck)));
    let flowing = async {
        for _ in 0..100 {
            send(&well).await.unwrap();
            *done.lock().await += 1;
        }
    };
    tokio::select! { _ = hanging => panic!("nobody answers"), () = flowing => () }
    assert_eq!(*done.lock().await, 100);
}

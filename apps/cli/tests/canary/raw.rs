//! A server that answers whatever bytes it is told to, and keeps the bodies that it gets.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

/// The reply to a request with this head; the connection is closed after it.
type Answer = fn(head: &str) -> Vec<u8>;

/// Listens until the test ends.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    bodies: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bodies = Arc::default();
        let memory = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let memory = Arc::clone(&memory);
                std::thread::spawn(move || serve(stream, &memory, answer));
            }
        });
        Self { port, bodies }
    }

    /// All bodies, one after the other.
    pub(crate) fn bodies(&self) -> Vec<u8> {
        self.bodies.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, bodies: &Mutex<Vec<u8>>, answer: Answer) {
    let mut reader = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).is_ok_and(|read| read == 0) {
            return; // somebody only looked whether we are there
        }
    }
    head.make_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |text| text.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    bodies.lock().unwrap().extend(body);
    let _ = stream.write_all(&answer(&head)); // who does not wait for it does not get it
}

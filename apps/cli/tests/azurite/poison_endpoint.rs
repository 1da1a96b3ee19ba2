//! An HTTP endpoint that does what a message says, and remembers what it got.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

/// The endpoint. Its thread ends with the process.
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::default());
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream.unwrap(), &kept));
            }
        });
        Self { port, seen }
    }

    /// The bodies of all requests so far, sorted.
    pub(crate) fn seen(&self) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap().clone();
        seen.sort();
        seen
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        seen.lock().unwrap().push(body.clone());
        let status = match body.contains("accept") {
            true => "204 No Content",
            false if body.contains("hang up") => return,
            false => "422 Unprocessable Content",
        };
        let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nretry-after: 3600\r\n\r\n");
        stream.write_all(reply.as_bytes()).unwrap();
    }
}

//! HL7 receivers by MLLP and by HTTP, on ports of their own. Each acknowledges a message as its last segment says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

/// Two receivers, and the control ids that they have seen. Their threads end with this process.
#[derive(Debug, Clone)]
pub(crate) struct Hl7Receivers {
    pub(crate) mllp: u16,
    pub(crate) http: u16,
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
}

impl Hl7Receivers {
    pub(crate) fn start() -> Self {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let start = |serve: fn(TcpStream, &Mutex<Vec<String>>)| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (port, seen) = (listener.local_addr().unwrap().port(), seen.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let (stream, seen) = (stream.unwrap(), seen.clone());
                    std::thread::spawn(move || serve(stream, &seen));
                }
            });
            port
        };
        Self { mllp: start(serve_mllp), http: start(serve_http), seen }
    }
}

/// A message that a receiver treats as it says: `accept`, `reject`, `error`, `foreign` for the acknowledgement of another
/// message, or `silent` for none.
pub(crate) fn hl7(control_id: &str, says: &str) -> String {
    format!(
        "MSH|^~\\&|HIS|Y|LAB|X|20260101||ORU^R01|{control_id}|P|2.5\rPID|1||CANARY\rNTE|1||{says}\r"
    )
}

fn serve_mllp(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut frame = Vec::new();
        if reader.read_until(b'\x1c', &mut frame).unwrap_or(0) == 0 {
            return;
        }
        reader.read_exact(&mut [0]).unwrap(); // the CR
        let message = String::from_utf8(frame).unwrap();
        let message = message.trim_start_matches('\x0b').trim_end_matches('\x1c');
        let reply = format!("\x0b{}\x1c\r", acknowledgement(message, seen));
        stream.write_all(reply.as_bytes()).unwrap();
    }
}

fn serve_http(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut length, mut hl7) = (0, false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            hl7 |= line.trim_end() == "content-type: x-application/hl7-v2+er7";
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        assert!(hl7, "the content type");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let ack = acknowledgement(&String::from_utf8(body).unwrap(), seen);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", ack.len());
        stream.write_all(format!("{head}{ack}").as_bytes()).unwrap();
    }
}

fn acknowledgement(message: &str, seen: &Mutex<Vec<String>>) -> String {
    let id = message.split('|').nth(9).unwrap();
    seen.lock().unwrap().push(id.to_owned());
    let (code, id) = match message.trim_end().rsplit('|').next() {
        Some("accept") => ("AA", id),
        Some("foreign") => ("AA", "another"),
        Some("reject") => ("AR", id),
        Some("silent") => return "thank you, CANARY".to_owned(),
        _ => ("AE", id),
    };
    format!("MSH|^~\\&|LAB|X|HIS|Y|20260101||ACK|9|P|2.5\rMSA|{code}|{id}|CANARY\r")
}

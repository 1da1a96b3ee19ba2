//! Receivers by MLLP and by HTTP, on ports of their own. Each acknowledges a message as its last segment says.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

/// Two receivers, and the control ids that they have seen.
pub(crate) struct Receivers {
    pub(crate) mllp: u16,
    pub(crate) http: u16,
    seen: Arc<Mutex<Vec<String>>>,
    python: Option<(Child, JoinHandle<()>)>,
}

impl Receivers {
    /// Threads of this process.
    pub(crate) fn ours() -> Self {
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
        Self { mllp: start(serve_mllp), http: start(serve_http), seen, python: None }
    }

    /// The Python package `hl7`, which says where it listens and then what it has seen.
    pub(crate) fn in_python() -> Self {
        let python = env::var_os("BEZOAR_TEST_HL7").expect("BEZOAR_TEST_HL7 is set");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hl7/receivers.py");
        // -B keeps `__pycache__` out of the sources.
        let mut command = Command::new(python);
        command.arg("-B").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut port = || lines.next().expect("a port").parse().unwrap();
        let (mllp, http) = (port(), port());
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let keeping = seen.clone();
        let reading = std::thread::spawn(move || {
            lines.for_each(|line| keeping.lock().unwrap().push(line));
        });
        Self { mllp, http, seen, python: Some((child, reading)) }
    }

    /// The control ids of all messages so far. Ends the receivers that are not ours.
    pub(crate) fn seen(mut self) -> Vec<String> {
        if let Some((mut child, reading)) = self.python.take() {
            drop(child.stdin.take()); // it ends with its input
            child.wait().unwrap();
            reading.join().unwrap();
        }
        self.seen.lock().unwrap().clone()
    }
}

/// A test that failed leaves nothing running.
impl Drop for Receivers {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.python {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
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
    let code = match message.trim_end().rsplit('|').next() {
        Some("accept") => "AA",
        Some("reject") => "AR",
        _ => "AE",
    };
    format!("MSH|^~\\&|LAB|X|HIS|Y|20260101||ACK|9|P|2.5\rMSA|{code}|{id}|CANARY\r")
}

//! Receivers by MLLP and by HTTP: ours, or those of the Python package `hl7`.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use crate::support::hl7_receivers::Hl7Receivers;

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
        let Hl7Receivers { mllp, http, seen } = Hl7Receivers::start();
        Self { mllp, http, seen, python: None }
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

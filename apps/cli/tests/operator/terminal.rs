//! The program at a terminal, as util-linux' `script` makes one.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use crate::{TOKEN, fake::Gateway};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of 130 columns and 24 rows. What is written to it is kept.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<(Mutex<String>, Condvar)>,
    copying: JoinHandle<()>,
}

impl Terminal {
    pub(crate) fn start(gateway: &Gateway, arguments: &str) -> Self {
        Self::start_with(gateway, arguments, ("COLORTERM", ""))
    }

    pub(crate) fn start_with(
        gateway: &Gateway,
        arguments: &str,
        (name, value): (&str, &str),
    ) -> Self {
        let program = assert_cmd::cargo::cargo_bin("bezoar");
        let line = format!("stty rows 24 cols 130; exec '{}' {arguments}", program.display());
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"])
            .env("BEZOAR_URL", gateway.url())
            .env("BEZOAR_TOKEN", TOKEN)
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let screen = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let (keys, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let copying = std::thread::spawn({
            let screen = screen.clone();
            move || copy(output, &screen)
        });
        Self { child, keys, screen, copying }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this was written.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let (written, changed) = &*self.screen;
        let is_missing = |written: &mut String| !written.contains(text);
        let (written, waited) =
            changed.wait_timeout_while(written.lock().unwrap(), PATIENCE, is_missing).unwrap();
        assert!(!waited.timed_out(), "{text:?} is missing in {written:?}");
    }

    /// Waits until the program ends; returns its exit code and all that was written.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap();
        self.copying.join().unwrap();
        (code, self.screen.0.lock().unwrap().clone())
    }
}

fn copy(mut output: impl Read, screen: &(Mutex<String>, Condvar)) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        screen.0.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
        screen.1.notify_all();
    }
}

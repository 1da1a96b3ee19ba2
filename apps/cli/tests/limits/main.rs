//! Requests that try to fill the memory, and connections that try to lock everybody else out.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crowd;
mod memory;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

use support::{client::Client, program::Program};
use tempfile::TempDir;

/// The memory that the gateway may use at any time.
const MEMORY_LIMIT_MIB: u64 = 200;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"

[[queue]]
name = "default"

[[token]]
name = "operator"
role = "operator"
secret = "the-token-of-an-operator"

[[token]]
name = "admin"
role = "admin"
secret = "the-token-of-an-admin"

[dead_letters]
editable = ["default"]

[[token]]
name = "viewer"
role = "viewer"
secret = "the-token-of-a-viewer"
"#;

/// A gateway in a process of its own, whose memory can be measured.
struct Lab {
    program: Program,
    _folder: TempDir,
}

impl Lab {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bezoar.toml"), CONFIG).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
        command
            .arg("up")
            .current_dir(folder.path())
            .env_remove("RUST_LOG")
            .env_remove("BEZOAR_CONFIG");
        command.env("MALLOC_MMAP_THRESHOLD_", "131072"); // as the service and the container have it
        Self { program: Program::start(&mut command), _folder: folder }
    }

    /// A client with connections of its own.
    fn client(&self, name: &str) -> Client {
        let article = if name.starts_with(['a', 'o']) { "an" } else { "a" };
        Client::new(self.program.address, &format!("the-token-of-{article}-{name}"))
    }

    fn assert_memory(&self, after: &str) {
        let peak = self.program.memory_mib("VmHWM");
        eprintln!("{after}: {peak} MiB at most, {} MiB now", self.program.memory_mib("VmRSS"));
        assert!(peak < MEMORY_LIMIT_MIB, "{after}: {peak} MiB");
    }
}

//! Reads, writes and syncs that fail.

use std::{collections::BTreeSet, fs, path::Path};

use super::{child_process::Other, support::*};

const EIO: i32 = 5;
const ETIMEDOUT: i32 = 110;
const EDQUOT: i32 = 122;

#[tokio::test]
async fn a_quota_that_is_used_up_is_a_full_store_and_ends_with_it() {
    let folder = folder();
    let mut child = Faulty::start(&file_in(&folder));
    assert_eq!(child.told("send before"), "ok");
    child.fail("write", EDQUOT);
    for name in ["during", "still"] {
        let refused = child.told(&format!("send {name}"));
        assert!(refused.starts_with("Full") && refused.contains("quota"), "{refused}");
    }
    child.work_again();
    assert_eq!(child.told("send after"), "ok");
    child.other.end();
    assert_eq!(everything_in(&file_in(&folder)).await, ["before", "after"]);
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_not_a_full_one() {
    let folder = folder();
    let path = filled(&folder, 300).await;
    for error in [EIO, ETIMEDOUT] {
        let mut child = Faulty::start(&path);
        child.fail("read", error);
        for _ in 0..3 {
            let refused = child.told("receive 300");
            assert!(refused.starts_with("Unusable") && refused.contains("read"), "{refused}");
        }
        child.work_again();
        assert_eq!(child.told("receive 300"), "ok");
        child.other.end();
    }
}

#[tokio::test]
async fn a_sync_that_fails_leaves_the_outcome_open_and_the_rest_as_it_was() {
    let folder = folder();
    let mut child = Faulty::start(&file_in(&folder));
    assert_eq!(child.told("send before"), "ok");
    child.fail("sync", EIO);
    let unknown = child.told("send during");
    assert!(unknown.starts_with("OutcomeUnknown"), "{unknown}");
    let refused = child.told("send later"); // the database cannot be reopened
    assert!(refused.starts_with("Unavailable") && refused.contains("durable"), "{refused}");
    child.work_again();
    assert_eq!(child.told("send after"), "ok");
    child.other.end();
    let found: BTreeSet<_> = everything_in(&file_in(&folder)).await.into_iter().collect();
    assert!(found.contains("before") && found.contains("after"), "{found:?}");
    assert!(!found.contains("later"), "it was refused");
}

/// A second process whose reads, writes or syncs can be made to fail.
struct Faulty {
    other: Other,
    control: std::path::PathBuf,
}

impl Faulty {
    fn start(path: &Path) -> Self {
        let control = path.with_file_name("control");
        fs::write(&control, "").unwrap();
        let shim = path.with_file_name("shim.so");
        compile(&shim);
        let variables = [
            ("LD_PRELOAD", shim.as_path()),
            ("BEZOAR_FAULT", control.as_path()),
            ("BEZOAR_FAULT_PREFIX", path),
        ];
        let mut other = Other::start_with(&format!("obey {}", path.display()), &variables);
        other.told_until("ready");
        Self { other, control }
    }

    fn fail(&self, operation: &str, error: i32) {
        fs::write(&self.control, format!("{operation} {error}")).unwrap();
    }

    fn work_again(&self) {
        fs::write(&self.control, "").unwrap();
    }

    fn told(&mut self, order: &str) -> String {
        self.other.answer_to(order)
    }
}

fn compile(shim: &Path) {
    let source = shim.with_extension("c");
    fs::write(&source, include_str!("fault_shim.c")).unwrap();
    let mut compiler = std::process::Command::new("cc");
    super::sql::run(compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(shim).arg(source));
}

//! What a real file, a real disk and real neighbours can do to a queue, and what then becomes of its
//! messages. Tests in `bodies` to `errors`; what they need in the others.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod bad_input {
    mod bodies;
    mod clocks;
    mod disks;
    mod errors;
    mod files;
    mod groups;
    mod neighbours;
    mod rows;

    mod lab;
    mod process;
    mod sql;
    mod trade;
}

//! What a real file, a real disk and real neighbours can do to a queue, and what then becomes of its
//! messages. Tests in `bodies` to `errors`; what they need in the others.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod faults {
    mod bodies;
    mod clock_changes;
    mod damaged_messages;
    mod disks;
    mod errors;
    mod files;
    mod group_commit;
    mod io_errors;
    mod log_files;
    mod long_readers;
    mod other_processes;
    mod rows;

    mod child_process;
    mod send_and_handle;
    mod sql;
    mod support;
}

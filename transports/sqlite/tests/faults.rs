//! Faults of files, disks, clocks and other processes, and what they do to messages. The last four modules are
//! support code.

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

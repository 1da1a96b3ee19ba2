// Records, in one total order, what a process does to the files of one folder.
//
// Preloaded (LD_PRELOAD) into the workload. A change is logged after it was made and under a lock, so
// that the log's order is the order in which changes were made. A sync is logged twice, when it starts
// and when it has succeeded, and the lock is not held in between: what happens meanwhile is not covered
// by it, and the log must show that it happened.
//
// One sync can be made to fail (BEZOAR_RECORD_FAIL_SYNC is its number, counting those of files), and the process
// to end at once at a later one, or at the same (BEZOAR_RECORD_EXIT_SYNC): as if it had been killed.
//
// The system calls are made directly; looking up the real functions could itself end up in here.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// As in log.rs.
enum { OPEN = 1, WRITE, TRUNCATE, SYNC_START, SYNC_DONE, UNLINK, CLOSE, START, SYNC_FAILED };
enum { CREATED = 1, EMPTIED = 2 };
struct __attribute__((packed)) record {
    uint8_t what;
    int32_t file;
    uint64_t number; // an offset, a length, or what open did
    uint32_t length; // of the bytes that follow: data or a name
};

enum { FILES_LIMIT = 65536 };
static char watched[FILES_LIMIT];
static const char *folder;
static int log_file = -1;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static long fail_sync, exit_sync, syncs; // 0: never
enum { KILLED = 42 };

static void start_record(void);

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("BEZOAR_RECORD_LOG");
    folder = getenv("BEZOAR_RECORD_FOLDER");
    if (!folder || !path) return;
    log_file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_file < 0) abort();
    const char *fail = getenv("BEZOAR_RECORD_FAIL_SYNC"), *end = getenv("BEZOAR_RECORD_EXIT_SYNC");
    fail_sync = fail ? atol(fail) : 0;
    exit_sync = end ? atol(end) : 0;
    start_record();
}

static void append(int what, int file, uint64_t number, const void *bytes, size_t length) {
    struct record record = {what, file, number, length};
    struct iovec parts[] = {{&record, sizeof record}, {(void *)bytes, length}};
    // A log with a hole would prove nothing.
    if (syscall(SYS_writev, log_file, parts, 2) != (long)(sizeof record + length)) abort();
}

// What was open before is not: this is another process.
static void start_record(void) { append(START, -1, 0, NULL, 0); }

static int is_watched(int file) { return file >= 0 && file < FILES_LIMIT && watched[file]; }

// The name within the folder; "" is the folder itself; NULL is elsewhere.
static const char *name_of(const char *path) {
    if (log_file < 0) return NULL;
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0) return NULL;
    if (path[length] == 0) return path + length;
    return path[length] == '/' ? path + length + 1 : NULL;
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
    const char *name = name_of(path);
    if (!name) return syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&order);
    int existed = syscall(SYS_faccessat, at, path, F_OK) == 0;
    int file = syscall(SYS_openat, at, path, flags, mode);
    int error = errno;
    if (file >= FILES_LIMIT) abort();
    if (file >= 0) {
        watched[file] = 1;
        int did = (existed ? 0 : CREATED) | (flags & O_TRUNC ? EMPTIED : 0);
        append(OPEN, file, did, name, strlen(name));
    }
    pthread_mutex_unlock(&order);
    errno = error;
    return file;
}

static mode_t mode_of(int flags, va_list more) { return flags & O_CREAT ? va_arg(more, mode_t) : 0; }

#define OPENING(at)                         \
    {                                       \
        va_list more;                       \
        va_start(more, flags);              \
        mode_t mode = mode_of(flags, more); \
        va_end(more);                       \
        return open_at(at, path, flags, mode); \
    }
int open(const char *path, int flags, ...) OPENING(AT_FDCWD)
int open64(const char *path, int flags, ...) OPENING(AT_FDCWD)
int openat(int at, const char *path, int flags, ...) OPENING(at)
int openat64(int at, const char *path, int flags, ...) OPENING(at)

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
    if (!is_watched(file)) return syscall(SYS_pwrite64, file, bytes, length, offset);
    pthread_mutex_lock(&order);
    ssize_t written = syscall(SYS_pwrite64, file, bytes, length, offset);
    int error = errno;
    if (written > 0) append(WRITE, file, offset, bytes, written);
    pthread_mutex_unlock(&order);
    errno = error;
    return written;
}
ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) {
    return pwrite64(file, bytes, length, offset);
}

// Where the next write(2) goes.
static uint64_t position(int file) {
    struct stat about;
    if (!(fcntl(file, F_GETFL) & O_APPEND)) return lseek(file, 0, SEEK_CUR);
    if (fstat(file, &about) != 0) abort();
    return about.st_size;
}

ssize_t write(int file, const void *bytes, size_t length) {
    if (!is_watched(file)) return syscall(SYS_write, file, bytes, length);
    pthread_mutex_lock(&order);
    uint64_t offset = position(file);
    ssize_t written = syscall(SYS_write, file, bytes, length);
    int error = errno;
    if (written > 0) append(WRITE, file, offset, bytes, written);
    pthread_mutex_unlock(&order);
    errno = error;
    return written;
}

int ftruncate64(int file, off64_t length) {
    if (!is_watched(file)) return syscall(SYS_ftruncate, file, length);
    pthread_mutex_lock(&order);
    int failed = syscall(SYS_ftruncate, file, length);
    int error = errno;
    if (!failed) append(TRUNCATE, file, length, NULL, 0);
    pthread_mutex_unlock(&order);
    errno = error;
    return failed;
}
int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

static void append_alone(int what, int file) {
    pthread_mutex_lock(&order);
    append(what, file, 0, NULL, 0);
    pthread_mutex_unlock(&order);
}

static int is_folder(int file) {
    struct stat about;
    return fstat(file, &about) == 0 && S_ISDIR(about.st_mode);
}

// Whether this sync is to fail; does not return if the process is to end.
static int fails(int file) {
    if (is_folder(file)) return 0;
    pthread_mutex_lock(&order); // so that all that was done is in the log
    long number = ++syncs;
    int failed = fail_sync && number == fail_sync;
    if (failed) append(SYNC_FAILED, file, 0, NULL, 0);
    if (exit_sync && number == exit_sync) _exit(KILLED);
    pthread_mutex_unlock(&order);
    return failed;
}

static int sync_by(long call, int file) {
    if (!is_watched(file)) return syscall(call, file);
    append_alone(SYNC_START, file);
    if (fails(file)) return errno = EIO, -1;
    int failed = syscall(call, file);
    int error = errno;
    if (!failed) append_alone(SYNC_DONE, file);
    errno = error;
    return failed;
}
int fsync(int file) { return sync_by(SYS_fsync, file); }
int fdatasync(int file) { return sync_by(SYS_fdatasync, file); }

int unlink(const char *path) {
    const char *name = name_of(path);
    if (!name) return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    pthread_mutex_lock(&order);
    int failed = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    int error = errno;
    if (!failed) append(UNLINK, -1, 0, name, strlen(name));
    pthread_mutex_unlock(&order);
    errno = error;
    return failed;
}

int close(int file) {
    if (!is_watched(file)) return syscall(SYS_close, file);
    pthread_mutex_lock(&order);
    // Before it is closed: its number may be given to another file at once.
    append(CLOSE, file, 0, NULL, 0);
    watched[file] = 0;
    int failed = syscall(SYS_close, file);
    int error = errno;
    pthread_mutex_unlock(&order);
    errno = error;
    return failed;
}

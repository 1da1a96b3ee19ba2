// Makes reads, writes or syncs of the files of a database fail.
//
// Preloaded (LD_PRELOAD) into a second process. The file that BEZOAR_FAULT names says what fails and how, for
// example "write 122"; while it is empty or missing, nothing does. Only files whose path begins with
// BEZOAR_FAULT_PREFIX are concerned.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int concerns(int file) {
    const char *prefix = getenv("BEZOAR_FAULT_PREFIX");
    char link[64], path[4096];
    if (!prefix) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

// The error with which this operation is to fail, or 0.
static int fault(const char *operation, int file) {
    const char *control = getenv("BEZOAR_FAULT");
    char text[64] = {0};
    int saved = errno;
    if (!control) return 0;
    int opened = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    errno = saved;
    if (opened < 0) return 0;
    long length = syscall(SYS_read, opened, text, sizeof text - 1);
    syscall(SYS_close, opened);
    errno = saved;
    size_t named = strlen(operation);
    if (length <= (long)named || strncmp(text, operation, named) != 0 || text[named] != ' ') return 0;
    return concerns(file) ? atoi(text + named + 1) : 0;
}

#define FAILING(operation, call)                 \
    {                                            \
        int error = fault(operation, file);      \
        if (error) return errno = error, -1;     \
        return call;                             \
    }

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset)
    FAILING("write", syscall(SYS_pwrite64, file, bytes, length, offset))
ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset)
    FAILING("write", syscall(SYS_pwrite64, file, bytes, length, offset))
ssize_t pread64(int file, void *bytes, size_t length, off64_t offset)
    FAILING("read", syscall(SYS_pread64, file, bytes, length, offset))
ssize_t pread(int file, void *bytes, size_t length, off_t offset)
    FAILING("read", syscall(SYS_pread64, file, bytes, length, offset))
int fsync(int file) FAILING("sync", syscall(SYS_fsync, file))
int fdatasync(int file) FAILING("sync", syscall(SYS_fdatasync, file))

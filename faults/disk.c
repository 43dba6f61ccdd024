/* A file layer that fails on demand: preloaded, it stands before the calls of the C library that touch files in one
   folder. `arm` says which call fails, from which time on, how often, and with what error; 0 means half of what was
   asked is done, as the system may always answer to a write or a read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, READ = 2, SYNC = 4, RENAME = 8 };
static char folder[4096];
static int kinds, failure, times;
static atomic_int until;

void arm(const char *path, int which, int first, int count, int error) {
    snprintf(folder, sizeof folder, "%s", path);
    failure = error, times = count;
    atomic_store(&until, first);
    kinds = which;
}

static int is_ours(const char *path) { return strncmp(path, folder, strlen(folder)) == 0; }

static int is_our_file(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static int fails(int kind) {
    if (!(kinds & kind)) return 0;
    int left = atomic_fetch_sub(&until, 1);
    return left <= 0 && left > -times;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MOVE(kind, name, size, again)                                                                                  \
    if (kinds & kind && is_our_file(descriptor) && fails(kind)) {                                                      \
        if (failure) return errno = failure, -1;                                                                       \
        if (size > 1) return again;                                                                                    \
    }

ssize_t write(int descriptor, const void *data, size_t size) {
    MOVE(WRITE, write, size, REAL(write)(descriptor, data, size / 2))
    return REAL(write)(descriptor, data, size);
}
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) {
    MOVE(WRITE, pwrite, size, REAL(pwrite)(descriptor, data, size / 2, at))
    return REAL(pwrite)(descriptor, data, size, at);
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
    MOVE(WRITE, pwrite64, size, REAL(pwrite64)(descriptor, data, size / 2, at))
    return REAL(pwrite64)(descriptor, data, size, at);
}
ssize_t read(int descriptor, void *data, size_t size) {
    MOVE(READ, read, size, REAL(read)(descriptor, data, size / 2))
    return REAL(read)(descriptor, data, size);
}
ssize_t pread(int descriptor, void *data, size_t size, off_t at) {
    MOVE(READ, pread, size, REAL(pread)(descriptor, data, size / 2, at))
    return REAL(pread)(descriptor, data, size, at);
}
ssize_t pread64(int descriptor, void *data, size_t size, off64_t at) {
    MOVE(READ, pread64, size, REAL(pread64)(descriptor, data, size / 2, at))
    return REAL(pread64)(descriptor, data, size, at);
}
int fsync(int descriptor) {
    if (kinds & SYNC && is_our_file(descriptor) && fails(SYNC)) return errno = failure ? failure : EIO, -1;
    return REAL(fsync)(descriptor);
}
int rename(const char *from, const char *to) {
    if (kinds & RENAME && is_ours(to) && fails(RENAME)) return errno = failure ? failure : EIO, -1;
    return REAL(rename)(from, to);
}
int renameat(int old, const char *from, int new, const char *to) {
    if (kinds & RENAME && is_ours(to) && fails(RENAME)) return errno = failure ? failure : EIO, -1;
    return REAL(renameat)(old, from, new, to);
}

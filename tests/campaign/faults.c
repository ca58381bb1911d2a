/* Loaded before libc's own (LD_PRELOAD): counts the calls that change a file system, and at the chosen one kills the
   process, or from there on says that the disk is full. Nothing happens before `faults_arm`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, FULL };
static int mode = -1, at, seen, spared = -1;

void faults_arm(int new_mode, int new_at) { mode = new_mode; at = new_at; seen = 0; }
void faults_spare(int fd) { spared = fd; }
int faults_seen(void) { return seen; }

/* Whether the call is to fail. `grows`: it takes room on the disk. */
static int fault(int grows) {
    if (mode < COUNT) return 0;
    seen++;
    if (mode == KILL && seen == at) kill(getpid(), SIGKILL);
    if (mode == FULL && seen >= at && grows) { errno = ENOSPC; return 1; }
    return 0;
}

static int is_file(int fd) {
    struct stat status;
    int kept = errno, found = fd != spared && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    errno = kept;
    return found;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define CHANGES(flags) ((flags) & (O_CREAT | O_TRUNC))
#define MODE va_list rest; va_start(rest, flags); mode_t bits = CHANGES(flags) ? va_arg(rest, mode_t) : 0; va_end(rest)

int open(const char *path, int flags, ...) { REAL(open); MODE; return CHANGES(flags) && fault(1) ? -1 : real(path, flags, bits); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE; return CHANGES(flags) && fault(1) ? -1 : real(path, flags, bits); }
int openat(int at_fd, const char *path, int flags, ...) { REAL(openat); MODE; return CHANGES(flags) && fault(1) ? -1 : real(at_fd, path, flags, bits); }
int openat64(int at_fd, const char *path, int flags, ...) { REAL(openat64); MODE; return CHANGES(flags) && fault(1) ? -1 : real(at_fd, path, flags, bits); }

ssize_t write(int fd, const void *data, size_t n) { REAL(write); return is_file(fd) && fault(1) ? -1 : real(fd, data, n); }
ssize_t writev(int fd, const struct iovec *data, int n) { REAL(writev); return is_file(fd) && fault(1) ? -1 : real(fd, data, n); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t from) { REAL(pwrite); return is_file(fd) && fault(1) ? -1 : real(fd, data, n, from); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t from) { REAL(pwrite64); return is_file(fd) && fault(1) ? -1 : real(fd, data, n, from); }
size_t fwrite(const void *data, size_t size, size_t n, FILE *file) { REAL(fwrite); return is_file(fileno(file)) && fault(1) ? 0 : real(data, size, n, file); }
ssize_t sendfile(int out, int in, off_t *from, size_t n) { REAL(sendfile); return is_file(out) && fault(1) ? -1 : real(out, in, from, n); }
ssize_t sendfile64(int out, int in, off64_t *from, size_t n) { REAL(sendfile64); return is_file(out) && fault(1) ? -1 : real(out, in, from, n); }
ssize_t copy_file_range(int in, off64_t *i, int out, off64_t *o, size_t n, unsigned flags) { REAL(copy_file_range); return fault(1) ? -1 : real(in, i, out, o, n, flags); }
int ftruncate(int fd, off_t size) { REAL(ftruncate); return fault(0) ? -1 : real(fd, size); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); return fault(0) ? -1 : real(fd, size); }
int fsync(int fd) { REAL(fsync); return fault(0) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fault(0) ? -1 : real(fd); }
int rename(const char *from, const char *to) { REAL(rename); return fault(0) ? -1 : real(from, to); }
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) { REAL(renameat2); return fault(0) ? -1 : real(at, from, to_at, to, flags); }
int unlink(const char *path) { REAL(unlink); return fault(0) ? -1 : real(path); }
int unlinkat(int fd, const char *path, int flags) { REAL(unlinkat); return fault(0) ? -1 : real(fd, path, flags); }
int mkdir(const char *path, mode_t bits) { REAL(mkdir); return fault(1) ? -1 : real(path, bits); }
int rmdir(const char *path) { REAL(rmdir); return fault(0) ? -1 : real(path); }
int link(const char *from, const char *to) { REAL(link); return fault(1) ? -1 : real(from, to); }
int symlink(const char *from, const char *to) { REAL(symlink); return fault(1) ? -1 : real(from, to); }

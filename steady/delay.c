/*
 * Preloaded into all processes of a test. It makes a disk slow, and notes whom a test itself has stopped.
 *
 * fsync, fdatasync and sync_file_range take STEADY_DELAY_MS longer, and are counted. Two of PostgreSQL's programs are left
 * alone, which sync hundreds of files one by one: initdb, which makes an empty server, and the checkpointer, whose work is
 * greatest at the end of a recovery. Commits, which clients wait for, are slow.
 *
 * A test may stop a process that the stopper has stopped already. When the stopper lets go of it, it must stay where the
 * test wants it: kill() keeps a byte for each process that a test holds by SIGSTOP.
 *
 * The file STEADY_SHARED, see preload.py: 8 bytes with the count, then one byte for each process number.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define HEADER 8
#define MOST_PID 4194304 /* PID_MAX_LIMIT of Linux */

static unsigned char *shared;
static long delay_ms = 200;
static int is_slow = 1;

__attribute__((constructor)) static void begin(void) {
    int before = errno;
    const char *path = getenv("STEADY_SHARED"), *given = getenv("STEADY_DELAY_MS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (given)
        delay_ms = atol(given);
    is_slow = strcmp(program_invocation_short_name, "initdb") != 0;
    if (file >= 0) {
        void *mapped = mmap(NULL, HEADER + MOST_PID + 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        shared = mapped == MAP_FAILED ? NULL : mapped;
        close(file);
    }
    errno = before;
}

/* PostgreSQL forks it from its server and gives it a title. */
static int is_checkpointer(void) {
    static const char title[] = "postgres: checkpointer";
    char said[sizeof title - 1];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, said, sizeof said) : 0;
    if (file >= 0)
        close(file);
    return length == sizeof said && memcmp(said, title, sizeof said) == 0;
}

/* A disk does not hurry up for a signal, so an interrupted wait goes on. */
static void wait_for_disk(void) {
    int before = errno;
    struct timespec until;
    if (!is_slow || is_checkpointer()) {
        errno = before;
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += delay_ms / 1000;
    until.tv_nsec += delay_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec += 1;
        until.tv_nsec -= 1000000000;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    if (shared)
        __atomic_add_fetch((uint64_t *)shared, 1, __ATOMIC_RELAXED);
    errno = before;
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_disk();
    return real(file);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk();
    return real(file);
}

int sync_file_range(int file, off64_t from, off64_t length, unsigned int flags) {
    int (*real)(int, off64_t, off64_t, unsigned int) =
        (int (*)(int, off64_t, off64_t, unsigned int))dlsym(RTLD_NEXT, "sync_file_range");
    wait_for_disk();
    return real(file, from, length, flags);
}

/* The byte is written before the signal is sent: who sees a process that a test has stopped sees the byte, too. */
int kill(pid_t pid, int which) {
    int (*real)(pid_t, int) = (int (*)(pid_t, int))dlsym(RTLD_NEXT, "kill");
    if (shared && pid > 0 && pid <= MOST_PID && (which == SIGSTOP || which == SIGCONT || which == SIGKILL))
        __atomic_store_n(shared + HEADER + pid, which == SIGSTOP, __ATOMIC_SEQ_CST);
    return real(pid, which);
}

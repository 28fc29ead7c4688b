/* Preloaded into the server: SIGUSR2 makes writes to files, or their syncs, fail with EIO from then
 * on, in all threads. A seccomp filter does it, so it also meets calls that pass by the C library.
 * Standard error is told since when, in nanoseconds of the monotonic clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the system calls that fail. */
static unsigned first, second;

/* A signal handler may not format. */
static void tell_time(void) {
    char line[] = "fault: calls fail since 00000000000000000000\n";
    char *digit = line + sizeof line - 2;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (unsigned long long ns = now.tv_sec * 1000000000ULL + now.tv_nsec; ns > 0; ns /= 10) {
        *--digit = '0' + ns % 10;
    }
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(97);
}

static void fail_from_now_on(int signal) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    static const char refused[] = "fault: the filter was refused\n";
    (void)signal;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        if (write(STDERR_FILENO, refused, sizeof refused - 1) < 0) _exit(97);
        return;
    }
    tell_time();
}

__attribute__((constructor)) static void prepare(void) {
    const char *name = getenv("FAULT_CALL");
    if (name == NULL) return;
    /* Past the page cache a group is one part, through it several. */
    first = name[0] == 'f' ? SYS_fdatasync : SYS_pwrite64;
    second = name[0] == 'f' ? SYS_fdatasync : SYS_pwritev;
    signal(SIGUSR2, fail_from_now_on);
}

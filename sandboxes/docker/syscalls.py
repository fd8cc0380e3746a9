"""The system calls that a container may make at all: a list of what is allowed, for the supervisor and programs alike.

It is what a Python, a shell or a compiler needs without privileges. Each program then takes the finer filter of
`inside/seccomp.py` on top, which also looks at more arguments; neither io_uring nor vsock passes either.
"""

from __future__ import annotations

import json
from typing import Any, Final

_ALLOWED: Final = """
    open openat openat2 creat close close_range read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2
    lseek _llseek dup dup2 dup3 fcntl fcntl64 flock ioctl pipe pipe2 splice tee vmsplice sendfile sendfile64
    copy_file_range fsync fdatasync sync syncfs sync_file_range readahead fadvise64 fadvise64_64 fallocate
    stat lstat fstat stat64 lstat64 fstat64 newfstatat fstatat64 statx statfs fstatfs statfs64 fstatfs64
    access faccessat faccessat2 getdents getdents64 getcwd chdir fchdir
    mkdir mkdirat rmdir mknod mknodat link linkat symlink symlinkat readlink readlinkat unlink unlinkat
    rename renameat renameat2 truncate ftruncate truncate64 ftruncate64 umask
    chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat
    getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr
    removexattr lremovexattr fremovexattr inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
    io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents

    mmap mmap2 munmap mremap mprotect msync madvise mincore mlock mlock2 munlock mlockall munlockall brk
    pkey_alloc pkey_free pkey_mprotect memfd_create membarrier remap_file_pages
    shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl ipc
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr

    fork vfork execve execveat exit exit_group wait4 waitid waitpid getpid getppid gettid getpgid getpgrp setpgid
    getsid setsid getpriority setpriority ioprio_get ioprio_set getrlimit ugetrlimit setrlimit prlimit64 getrusage times
    sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler
    sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min
    sched_rr_get_interval getcpu prctl arch_prctl set_thread_area get_thread_area set_tid_address
    set_robust_list get_robust_list rseq futex futex_waitv pidfd_open pidfd_send_signal
    getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid
    setgroups setfsuid setfsgid capget capset seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self

    kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo
    rt_tgsigqueueinfo rt_sigreturn sigreturn sigaltstack signalfd signalfd4 pause alarm getitimer setitimer
    restart_syscall eventfd eventfd2 poll ppoll select pselect6 _newselect
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep
    timer_create timer_delete timer_settime timer_gettime timer_getoverrun
    timerfd_create timerfd_settime timerfd_gettime uname sysinfo getrandom

    bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown
    send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg
"""
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_NEW_NAMESPACES: Final = 0x7E020000
_ENOSYS: Final = 38
_PER_LINUX: Final = (0, 0xFFFFFFFF)  # the usual personality, and the question which one it is


def profile() -> str:
    """The profile as JSON, in the engine's format."""
    rules: list[dict[str, Any]] = [
        {"names": _ALLOWED.split(), "action": "SCMP_ACT_ALLOW"},
        {
            "names": ["clone"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": _NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
        },
        # Its flags lie behind a pointer: C libraries fall back to clone where it is not there.
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
        *(_first_is("socket", family) for family in (_AF_UNIX, _AF_INET, _AF_INET6)),
        _first_is("socketpair", _AF_UNIX),
        *(_first_is("personality", kind) for kind in _PER_LINUX),
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": rules})


def _first_is(name: str, value: int) -> dict[str, Any]:
    """Allow a system call with this first argument."""
    return {
        "names": [name],
        "action": "SCMP_ACT_ALLOW",
        "args": [{"index": 0, "value": value, "op": "SCMP_CMP_EQ"}],
    }

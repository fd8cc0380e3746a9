"""Ways out, one by one: each is tried from within, and each must be refused.

A program prints ATTEMPT before each act, DENIED with the reason, and BREACH if it got what it asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest
from conformance.helpers import (
    ENV_CANARY,
    Canaries,
    Listeners,
    alone,
    assert_withstood,
    both,
    new_canary,
)

PRELUDE = """
import ctypes, errno, fcntl, os, resource, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def forked(number, *args):
    result = call(number, *args)
    if result == 0: os._exit(0)
    return result
def ran(*argv):
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=5)
    if done.returncode: raise OSError(errno.EPERM, done.stderr.decode()[-200:])
    return done.stdout
def attempt(name, act):
    print("ATTEMPT", name, flush=True)
    try: got = act()
    except (OSError, ValueError) as error: print("DENIED", name, error, flush=True)
    else: print("BREACH", name, repr(got)[:200], flush=True)
"""

# Each value: statements that call attempt(name, act); names on the left are for reading.
REFUSED = {
    "user namespaces": """
attempt("unshare user", lambda: call(272, 0x10000000))
attempt("clone user", lambda: forked(56, 0x10000000 | 17, 0, 0, 0, 0))
args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
attempt("clone3 user", lambda: forked(435, ctypes.byref(args), 88))
if os.path.exists("/usr/bin/unshare"): attempt("unshare -Ur", lambda: ran("unshare", "-Ur", "true"))
""",
    "other namespaces": """
for name, flag in dict(mnt=0x20000, uts=0x4000000, ipc=0x8000000, pid=0x20000000, net=0x40000000, cgroup=0x2000000,
                       time=0x80).items():
    attempt("unshare " + name, lambda: call(272, flag))
    if name != "time": attempt("clone " + name, lambda: forked(56, flag | 17, 0, 0, 0, 0))
for name in os.listdir("/proc/self/ns"):
    attempt("setns own " + name, lambda: call(308, os.open("/proc/self/ns/" + name, os.O_RDONLY), 0))
    attempt("setns 1 " + name, lambda: call(308, os.open("/proc/1/ns/" + name, os.O_RDONLY), 0))
""",
    "tracing": """
for pid in (1, os.getppid()):
    attempt("attach", lambda: call(101, 16, pid, 0, 0))
    attempt("seize", lambda: call(101, 0x4206, pid, 0, 0))
    buffer = ctypes.create_string_buffer(64)
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 64)
    attempt("process_vm_readv", lambda: call(310, pid, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0))
    attempt("process_vm_writev", lambda: call(311, pid, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0))
    attempt("pidfd_getfd", lambda: call(438, os.pidfd_open(pid), 5, 0))
    attempt("kcmp", lambda: call(312, pid, os.getpid(), 0, 3, 3))
attempt("trace me", lambda: call(101, 0, 0, 0, 0))
child = os.fork()
if child == 0: time.sleep(5); os._exit(0)
attempt("attach to a child", lambda: call(101, 16, child, 0, 0))
""",
    "the first process": """
for name in ("mem", "maps", "environ", "auxv", "io", "stack", "syscall", "pagemap", "timerslack_ns", "map_files"):
    attempt("open " + name, lambda: open("/proc/1/" + name, "rb").read(1))
for name in ("mem", "clear_refs", "oom_score_adj", "coredump_filter", "autogroup", "comm", "sched"):
    attempt("write " + name, lambda: os.write(os.open("/proc/1/" + name, os.O_WRONLY), b"1"))
for name in ("root", "cwd", "exe"):
    attempt("follow " + name, lambda: os.readlink("/proc/1/" + name))
attempt("descriptors", lambda: os.listdir("/proc/1/fd"))
for fd in range(12):
    attempt("open descriptor", lambda: os.open("/proc/1/fd/%d" % fd, os.O_RDWR))
for number in (9, 15, 19, 2, 1):
    attempt("kill", lambda: os.kill(1, number))
attempt("pidfd kill", lambda: signal.pidfd_send_signal(os.pidfd_open(1), 9))
attempt("queue a signal", lambda: call(129, 1, 9, ctypes.create_string_buffer(128)))
attempt("limits", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE))
attempt("lower limits", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)))
attempt("affinity", lambda: os.sched_setaffinity(1, {0}))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt("ioprio", lambda: call(251, 1, 1, 3 << 13))
attempt("session", lambda: os.setpgid(1, os.getpgid(0)))
attempt("move pages", lambda: call(279, 1, 0, 0, 0, 0, 0))
attempt("migrate pages", lambda: call(256, 1, 1, ctypes.byref(ctypes.c_ulong(1)), ctypes.byref(ctypes.c_ulong(1))))
""",
    "mounts": """
os.makedirs("m", exist_ok=True)
attempt("tmpfs", lambda: call(165, b"none", b"m", b"tmpfs", 0, 0))
attempt("bind", lambda: call(165, b"/usr", b"m", 0, 0x1000, 0))
attempt("proc", lambda: call(165, b"proc", b"m", b"proc", 0, 0))
attempt("remount", lambda: call(165, b"none", b"/", 0, 0x20 | 0x1000, 0))
attempt("move", lambda: call(165, b"/proc", b"m", 0, 0x2000, 0))
attempt("umount", lambda: call(166, b"/proc", 2))
attempt("pivot_root", lambda: call(155, b".", b"."))
attempt("chroot", lambda: call(161, b"m"))
attempt("fsopen", lambda: call(430, b"tmpfs", 0))
attempt("open_tree", lambda: call(428, -100, b"/", 1))
attempt("move_mount", lambda: call(429, -100, b"/proc", -100, b"m", 0))
attempt("mount_setattr", lambda: call(442, -100, b"/", 0, (ctypes.c_uint64 * 4)(0, 1), 32))
for name in ("mount", "umount"):
    if os.path.exists("/usr/bin/" + name): attempt(name, lambda: ran(name, "/proc"))
""",
    "devices": """
import stat
for number in ((1, 1), (1, 3), (8, 0), (5, 1), (10, 200), (10, 229)):
    attempt("character %d:%d" % number, lambda: os.mknod("c%d_%d" % number, 0o600 | stat.S_IFCHR, os.makedev(*number)))
    attempt("block %d:%d" % number, lambda: os.mknod("b%d_%d" % number, 0o600 | stat.S_IFBLK, os.makedev(*number)))
for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm",
             "/dev/net/tun", "/dev/vsock", "/dev/ptmx", "/dev/tty", "/dev/console", "/dev/userfaultfd", "/dev/mqueue",
             "/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/self/mem_", "/sys/kernel", "/sys/fs/cgroup"):
    attempt("open " + path, lambda: os.open(path, os.O_RDONLY))
attempt("chmod a device", lambda: os.chmod("/dev/null", 0o600))
attempt("remove a device", lambda: os.unlink("/dev/null"))
attempt("a new device", lambda: open("/dev/zz", "w"))
""",
    "credentials": """
attempt("setuid", lambda: os.setuid(0))
attempt("setresuid", lambda: os.setresuid(0, 0, 0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("setfsuid", lambda: (call(122, 0), call(122, 0))[1] == 0 or (_ for _ in ()).throw(OSError(1, "unchanged")))
attempt("capset", lambda: call(126, ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)),
                               ctypes.byref((ctypes.c_uint32 * 6)(1, 1, 0, 0, 0, 0))))
attempt("ambient", lambda: call(157, 47, 2, 0, 0, 0))
attempt("securebits", lambda: call(157, 28, 1, 0, 0, 0))
attempt("no_new_privs off", lambda: call(157, 38, 0, 0, 0, 0))
open("mine", "w").close()
attempt("chown", lambda: os.chown("mine", 0, 0))
attempt("chown to the host's", lambda: os.chown("mine", 12345, 12345))
attempt("file capability", lambda: os.setxattr("mine", "security.capability", bytes(20)))
attempt("trusted attribute", lambda: os.setxattr("mine", "trusted.zz", b"1"))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    print("ATTEMPT look", name)
    if int(status[name], 16): print("BREACH", name, status[name].strip())
if status["NoNewPrivs"].strip() != "1": print("BREACH new privileges are possible")
if status["Seccomp"].strip() != "2": print("BREACH no filter")
if "0" in (status["Uid"] + status["Gid"] + status["Groups"]).split(): print("BREACH root's ids", status["Groups"])
""",
    "setuid programs": """
import glob, shutil, stat
found = [p for d in ("/usr/bin", "/usr/sbin", "/usr/lib") for p in glob.glob(d + "/*") if os.path.isfile(p)
         and os.stat(p).st_mode & (stat.S_ISUID | stat.S_ISGID)]
print("ATTEMPT", len(found), "setuid programs")
for path in found[:12]:
    try: child = subprocess.Popen([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error: print("DENIED", path, error); continue
    time.sleep(0.02)
    try:
        ids = [line for line in open("/proc/%d/status" % child.pid) if line.startswith("Uid")][0].split()[1:]
        if "0" in ids: print("BREACH", path, ids)
    except (OSError, IndexError): pass
    child.kill(); child.wait()
shutil.copy("/usr/bin/id", "id"); os.chmod("id", 0o6755)
if ran("./id", "-u").strip() == b"0": print("BREACH own setuid file")
for argv in (["su", "-c", "id -u"], ["sudo", "-n", "id", "-u"], ["pkexec", "id", "-u"], ["newgrp", "root"]):
    if shutil.which(argv[0]):
        try: out = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=5).stdout
        except OSError: continue
        if out.strip() == b"0": print("BREACH", argv)
""",
    "rare system calls": """
page = ctypes.create_string_buffer(4096)
where = ctypes.byref(page)
for name, number, args in (
    ("keyctl", 250, (0, -3, 1)), ("add_key", 248, (b"user", b"zz", b"x", 1, -3)), ("request_key", 249, (b"user", b"zz", 0, 0)),
    ("io_uring_setup", 425, (4, where)), ("io_uring_enter", 426, (0, 0, 0, 0, 0, 0)), ("bpf", 321, (0, where, 64)),
    ("userfaultfd", 323, (1,)), ("perf_event_open", 298, (where, 0, -1, -1, 0)), ("fanotify_init", 300, (0, 0)),
    ("kexec_load", 246, (0, 0, 0, 0)), ("init_module", 175, (where, 64, b"")), ("finit_module", 313, (0, b"", 0)),
    ("delete_module", 176, (b"zz", 0)), ("reboot", 169, (0, 0, 0, 0)), ("swapon", 167, (b"zz", 0)), ("swapoff", 168, (b"zz",)),
    ("syslog", 103, (3, where, 4096)), ("iopl", 172, (3,)), ("ioperm", 173, (0, 10, 1)), ("settimeofday", 164, (where, 0)),
    ("clock_settime", 227, (0, where)), ("clock_adjtime", 305, (0, where)), ("adjtimex", 159, (where,)), ("acct", 163, (0,)),
    ("quotactl", 179, (0, 0, 0, 0)), ("name_to_handle_at", 303, (-100, b"/", where, where, 0)),
    ("open_by_handle_at", 304, (-100, where, 0)), ("lookup_dcookie", 212, (0, where, 4096)), ("mbind", 237, (0, 0, 0, 0, 0, 0)),
    ("set_mempolicy", 238, (1, where, 64)), ("personality", 135, (0x40000,)), ("uselib", 134, (b"/usr/bin/id",)),
    ("sysfs", 139, (3,)), ("ustat", 136, (0, where)), ("modify_ldt", 154, (0, where, 16)), ("vhangup", 153, ()),
    ("sethostname", 170, (b"zz", 2)), ("setdomainname", 171, (b"zz", 2)), ("memfd_secret", 447, (0,)),
    ("nfsservctl", 180, (0, 0, 0)), ("process_madvise", 440, (0, 0, 0, 0, 0)), ("process_mrelease", 448, (0, 0)),
    ("landlock is no way out", 999, ()),
):
    attempt(name, lambda: call(number, *args))
""",
    "sockets": """
for name, family, kind in (("netlink", 16, 3), ("netlink datagram", 16, 2), ("packet", 17, 3), ("packet datagram", 17, 2),
    ("vsock", 40, 1), ("vsock datagram", 40, 2), ("crypto", 38, 5), ("bluetooth", 31, 3), ("can", 29, 3), ("tipc", 30, 1),
    ("key", 15, 3), ("rds", 21, 5), ("xdp", 44, 3), ("phonet", 35, 2), ("smc", 43, 1), ("appletalk", 5, 2), ("x25", 9, 5),
    ("kcm", 41, 5), ("qrtr", 42, 2), ("ieee802154", 36, 3), ("nfc", 39, 5), ("raw", 2, 3), ("raw v6", 10, 3)):
    attempt(name, lambda: call(41, family, kind, 255 if kind == 3 and family in (2, 10) else 0))
attempt("ping", lambda: call(41, 2, 2, 1))
attempt("a pair of another family", lambda: call(53, 30, 1, 0, (ctypes.c_int * 2)()))
attempt("typing into a terminal", lambda: fcntl.ioctl(0, 0x5412, b"x"))
attempt("an interface", lambda: (fcntl.ioctl(socket.socket(), 0x8914, b"eth0".ljust(40, b"\\0"))))
attempt("net admin", lambda: socket.socket().setsockopt(1, 36, 5))
attempt("bind to device", lambda: socket.socket().setsockopt(1, 25, b"eth0"))
attempt("transparent", lambda: socket.socket().setsockopt(0, 19, 1))
""",
    "the network": """
import struct
attempt("a route", lambda: [r for r in open("/proc/net/route").readlines()[1:] if r.split()[0] != "lo"][0] if
        len(open("/proc/net/route").readlines()) > 1 else (_ for _ in ()).throw(OSError(101, "no route")))
for address in ("192.0.2.1", "10.0.0.1", "169.254.169.254", "224.0.0.1", "255.255.255.255"):
    def connect():
        with socket.socket() as s:
            s.settimeout(0.3); s.connect((address, 80))
    attempt(address, connect)
    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); return s.sendto(b"x", (address, 53))
    attempt("datagram to " + address, send)
attempt("a name", lambda: socket.getaddrinfo("localhost.example", 80))
""",
    "the system's files": """
for path in ("/usr/bin/python3", "/usr/lib/os-release", "/etc/passwd", "/etc/hosts", "/bin/sh", "/etc/zz", "/usr/zz", "/zz",
             "/proc/zz", "/run/zz", "/mnt/zz", "/var/zz", "/sandbox/zz", "/proc/self/attr/current", "/proc/sys/kernel/hostname"):
    attempt("write " + path, lambda: os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
import sysconfig
lib = sysconfig.get_paths()["stdlib"]
attempt("write the library", lambda: open(os.path.join(lib, "os.py"), "a"))
attempt("rename", lambda: os.rename("/usr/bin", "/usr/nib"))
attempt("rename home", lambda: os.rename(os.getcwd(), os.getcwd() + "2"))
attempt("rename temporary", lambda: os.rename("/sandbox/tmp", "/sandbox/x") if os.path.exists("/sandbox") else os.rename("/tmp", "/x"))
attempt("remove", lambda: os.unlink("/usr/bin/id"))
attempt("chmod", lambda: os.chmod("/usr/bin/id", 0o777))
attempt("hard link", lambda: os.link("/usr/bin/id", "id"))
attempt("truncate", lambda: os.truncate("/usr/bin/id", 0))
attempt("times", lambda: os.utime("/usr/bin/id", (0, 0)))
attempt("attribute", lambda: os.setxattr("/usr/bin/id", "user.zz", b"1"))
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("root's home", lambda: os.listdir("/root"))
attempt("homes", lambda: os.listdir("/home"))
attempt("secrets in run", lambda: os.listdir("/run")[0] if os.listdir("/run") else (_ for _ in ()).throw(OSError(2, "empty")))
""",
    "kernel switches": """
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/ns_last_pid",
             "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/hostname", "/proc/sys/kernel/shmmax", "/proc/sys/fs/mqueue/msg_max",
             "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/sys/kernel/panic", "/proc/irq/default_smp_affinity",
             "/proc/sys/net/ipv4/ping_group_range", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups", "/proc/self/loginuid"):
    attempt("open " + path, lambda: os.write(os.open(path, os.O_WRONLY), b"0"))
attempt("oom score", lambda: open("/proc/self/oom_score_adj", "w", buffering=1).write("-1\\n"))
attempt("oom score 0", lambda: open("/proc/self/oom_score_adj", "w", buffering=1).write("0\\n"))
""",
    "limits": """
for name in ("CPU", "FSIZE", "NOFILE", "CORE", "NPROC", "MEMLOCK", "MSGQUEUE"):
    kind = getattr(resource, "RLIMIT_" + name) if hasattr(resource, "RLIMIT_" + name) else 12
    hard = resource.getrlimit(kind)[1]
    attempt("raise " + name, lambda: resource.setrlimit(kind, (hard + 1, hard + 1)) if hard >= 0 else None)
attempt("negative nice", lambda: os.nice(-1))
attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("deadline", lambda: call(314, 0, (ctypes.c_uint64 * 6)(48 | 6 << 32, 0, 0, 1 << 20, 1 << 21, 1 << 21), 0))
attempt("io real time", lambda: call(251, 1, 0, 1 << 13))
attempt("lock memory", lambda: call(149, 0, 1 << 30) if True else None)
attempt("lock all memory", lambda: call(151, 3))
""",
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("isolating")
on_x86 = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="system calls are written as numbers of x86_64"
)


async def run(sandbox, code, *arguments, **options):
    await sandbox.write_file("attack.py", code.encode())
    return await sandbox.exec(["python3", "attack.py", *arguments], **options)


@on_x86
@pytest.mark.parametrize("name", REFUSED)
async def test_refused(create, name):
    sandbox = await create(wall_s=8)
    result = await run(sandbox, PRELUDE + REFUSED[name] + "\nprint('TRIED ALL')")
    assert result.status == "exited", both(result)[-3000:]
    assert_withstood(result, "ATTEMPT", "TRIED ALL")
    assert (await run(sandbox, "print('on')")).stdout == b"on\n"


@on_x86
@pytest.mark.parametrize("name", REFUSED)
async def test_refused_in_a_session(with_sessions, create, name):
    """A session is a child of another kind; its walls are the same."""
    sandbox = await create(wall_s=8)
    session = await sandbox.session()
    result = await session.run(PRELUDE + REFUSED[name] + "\nprint('TRIED ALL')")
    said = result.stdout_text
    assert "TRIED ALL" in said, (said + result.stderr_text)[-3000:]
    assert not [line for line in said.splitlines() if line.startswith("BREACH")]


@on_x86
@pytest.mark.parametrize(
    "code",
    [
        "call(0x40000000 + 39)",
        # mov eax, 20; int 0x80; ret: getpid as a 32-bit program asks for it
        "m = __import__('mmap').mmap(-1, 4096, prot=7); m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()",
    ],
    ids=["x32", "int 0x80"],
)
async def test_the_kernels_other_doors_are_shut(sandbox, code):
    result = await run(sandbox, f"{PRELUDE}\nprint('ATTEMPT', flush=True)\n{code}\nprint('BREACH')")
    assert_withstood(result)
    assert (result.status, result.signal) in (("signalled", 31), ("signalled", 11))


async def test_no_socket_of_the_host_is_reached(create):
    code = """
import socket
tried = 0
for family, kind, address in (
    (socket.AF_UNIX, socket.SOCK_STREAM, "\\0canary-net"), (socket.AF_UNIX, socket.SOCK_DGRAM, "\\0canary-net-dgram"),
    *((socket.AF_UNIX, socket.SOCK_STREAM, p + "/canary-net.sock") for p in ("/tmp", "/run", "/var/tmp", "/proc/1/root/tmp")),
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 47111)), (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 47111)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 47112)), (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 47111)),
):
    tried += 1
    try:
        s = socket.socket(family, kind); s.settimeout(0.3); s.connect(address); s.send(b"x")
    except OSError as error: print("DENIED", address, error)
    else: print("SENT" if kind == socket.SOCK_DGRAM else "BREACH", address)
print("TRIED", tried)
"""
    with alone(), Listeners() as listeners:
        result = await run(await create(), code)
        assert_withstood(result, "TRIED 10")
        listeners.assert_untouched()


async def test_two_sandboxes_do_not_meet(create):
    """Files, sockets, ports, shared memory, queues and processes of one are not there in the other."""
    keeper, seeker = await create(wall_s=6), await create(wall_s=6)
    secret = new_canary()
    hold = """
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
secret = sys.stdin.readline().strip()
open("/tmp/zz_secret", "w").write(secret); open("/dev/shm/zz_secret", "w").write(secret); open("zz_secret", "w").write(secret)
kept = []
for family, address in ((socket.AF_UNIX, "\\0zz-meet"), (socket.AF_UNIX, "/tmp/zz_meet"), (socket.AF_INET, ("127.0.0.1", 47130))):
    s = socket.socket(family); s.bind(address); s.listen(); s.setblocking(False); kept.append(s)
libc.shmat.restype = ctypes.c_void_p
shm = libc.shmget(0x7A7A, 4096, 0o1666); ctypes.memmove(libc.shmat(shm, None, 0), secret.encode(), len(secret))
queue = libc.msgget(0x7A7A, 0o1666); sems = libc.semget(0x7A7A, 1, 0o1666)
print("ATTEMPT held", shm >= 0, queue >= 0, sems >= 0, flush=True)
time.sleep(2)
for s in kept:
    try: s.accept(); print("BREACH visited")
    except BlockingIOError: pass
print(open("/tmp/zz_secret").read() == secret)
"""
    seek = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.mq_open.restype = ctypes.c_int
print("ATTEMPT")
for path in ("/tmp/zz_secret", "/dev/shm/zz_secret", "zz_secret", "/var/tmp/zz_secret"):
    if os.path.exists(path): print("BREACH", path)
for family, address in ((socket.AF_UNIX, "\\0zz-meet"), (socket.AF_UNIX, "/tmp/zz_meet"), (socket.AF_INET, ("127.0.0.1", 47130))):
    try: socket.socket(family).connect(address); print("BREACH connected", address)
    except OSError as error: print("DENIED", address, error)
for name in ("shmget", "msgget", "semget"):
    args = (0x7A7A, 0, 0) if name != "msgget" else (0x7A7A, 0)
    if getattr(libc, name)(*args) >= 0: print("BREACH", name)
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid(), os.getppid())]
for pid in others:
    try: print("BREACH sees", open("/proc/%s/cmdline" % pid).read())
    except OSError: pass
for pid in range(2, 4000):
    if pid != os.getpid():
        try: os.kill(pid, 0); print("BREACH signals", pid)
        except OSError: pass
"""
    holding = asyncio.create_task(run(keeper, hold, stdin=secret.encode() + b"\n"))
    await asyncio.sleep(0.4)
    found = await run(seeker, seek)
    held = await holding
    assert_withstood(found)
    assert_withstood(held, "ATTEMPT held True")
    assert held.stdout.endswith(b"True\n")
    assert secret.encode() not in both(found)


async def test_nothing_is_left_for_the_next(backend):
    """What lives in the kernel and not in files: shared memory, queues, semaphores, sockets, names, ports."""
    leave = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
print("ATTEMPT", libc.shmget(0x7A7A, 1 << 20, 0o1666), libc.msgget(0x7A7A, 0o1666), libc.semget(0x7A7A, 1, 0o1666))
librt = ctypes.CDLL("librt.so.1", use_errno=True)
print("queue", librt.mq_open(b"/zz_queue", os.O_CREAT | os.O_RDWR, 0o666, None))
from multiprocessing import shared_memory, resource_tracker
block = shared_memory.SharedMemory("zz_block", create=True, size=4096)
resource_tracker.unregister(block._name, "shared_memory")
for folder in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~")): open(folder + "/zz_left", "w").write("left")
s = socket.create_server(("127.0.0.1", 47131)); c = socket.create_connection(("127.0.0.1", 47131)); a, _ = s.accept()
a.close()
try: libc.sethostname(b"zz_host", 7)
except OSError: pass
"""
    look = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
print("ATTEMPT")
for name, args in (("shmget", (0x7A7A, 0, 0)), ("msgget", (0x7A7A, 0)), ("semget", (0x7A7A, 0, 0))):
    if getattr(libc, name)(*args) >= 0: print("BREACH", name)
if ctypes.CDLL("librt.so.1").mq_open(b"/zz_queue", os.O_RDWR) >= 0: print("BREACH queue")
for folder in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~"), "/dev/mqueue"):
    if os.path.isdir(folder) and [n for n in os.listdir(folder) if n.startswith("zz_")]: print("BREACH", folder)
for path in ("/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem", "/proc/net/tcp"):
    if os.path.exists(path) and len(open(path).readlines()) > 1: print("BREACH", path, open(path).read())
if socket.gethostname().startswith("zz"): print("BREACH host name")
if open("/proc/loadavg") and int(open("/proc/loadavg").read().split()[-1]) > 50: print("BREACH processes were counted")
"""
    for _ in range(2):
        async with await backend.create() as first, await backend.create() as second:
            for sandbox in (first, second):
                assert_withstood(await run(sandbox, leave), "ATTEMPT 0")
        async with await backend.create() as first, await backend.create() as second:
            for sandbox in (first, second):
                assert_withstood(await run(sandbox, look))


async def test_secrets_of_the_harness_are_out_of_reach(backend, create):
    """Environment, memory and descriptors: of every process in sight and of this one's own past."""
    code = """
import ctypes, gc, os, re, stat, sys
canary = re.compile(rb"CANARY-[0-9a-f]{32}")
seen = 0
def look(where, data):
    for hit in canary.findall(data): print("LEAK", where, hit.decode())
for pid in ["self", *[p for p in os.listdir("/proc") if p.isdigit()]]:
    for name in ("environ", "cmdline", "maps", "mountinfo", "cgroup", "stat"):
        try: look(name, open("/proc/%s/%s" % (pid, name), "rb").read()); seen += 1
        except OSError: pass
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as mem:
    for line in maps:
        span, perms = line.split()[:2]
        start, end = (int(x, 16) for x in span.split("-"))
        if "r" in perms and "[v" not in line:
            try: mem.seek(start); data = mem.read(min(end - start, 64 << 20))
            except (OSError, OverflowError, ValueError): continue
            own = canary.pattern
            look("own memory", data)
            seen += 1
for fd in range(256):
    try: info = os.fstat(fd)
    except OSError: continue
    if fd > 2 and stat.S_ISSOCK(info.st_mode): print("BREACH a socket was inherited", fd)
    if stat.S_ISDIR(info.st_mode): print("BREACH a folder was inherited", fd)
print("ATTEMPT", seen)
"""
    with alone(), Canaries() as planted:
        async with await backend.create() as neighbour:
            await run(neighbour, "import sys; sys.stdin.read()", stdin=(new_canary() + "\n").encode() * 100)
            await neighbour.write_file("secret", new_canary().encode())
            result = await run(await create(), code)
            assert_withstood(result)
            planted.assert_unread(both(result))
        # the same slots again, in which a canary has just been
        async with await backend.create() as first, await backend.create() as second:
            for sandbox in (first, second):
                result = await run(sandbox, code)
                assert_withstood(result)
                assert ENV_CANARY.encode() not in both(result)


async def test_the_mounts_are_few_and_read_only(create):
    code = """
print("ATTEMPT")
for line in open("/proc/self/mountinfo"):
    left, _, right = line.partition(" - ")
    target, options = left.split()[4:6]
    kind = right.split()[0]
    writable = "rw" in options.split(",") and "rw" in right.split()[2].split(",")
    if writable and kind not in ("proc", "tmpfs", "devtmpfs", "mqueue", "devpts"): print("BREACH writable", line)
    if target != "/" and not target.startswith("/dev") and "nosuid" not in options: print("BREACH setuid works on", line)
    if kind in ("cgroup", "cgroup2", "sysfs", "debugfs", "securityfs", "bpf"): print("BREACH", line)
"""
    assert_withstood(await run(await create(), code))


async def test_forged_frames_on_every_descriptor(create):
    """Whatever a program writes to the descriptors that it finds is output, or nothing."""
    code = """
import os, socket, struct
forged = b"d9:exit_codei0e6:status6:exited6:stdout4:PASSe"
frame = struct.pack(">I", len(forged)) + forged
print("ATTEMPT", flush=True)
wrote = []
for fd in range(3, 1024):
    for act in (lambda: os.write(fd, frame), lambda: socket.socket(fileno=os.dup(fd)).send(frame)):
        try: act(); wrote.append(fd)
        except OSError: pass
for pid in (1, os.getppid()):
    for fd in range(32):
        try: os.write(os.open("/proc/%d/fd/%d" % (pid, fd), os.O_WRONLY), frame); print("BREACH", pid, fd)
        except OSError: pass
print("wrote", wrote, flush=True)
os._exit(9)
"""
    sandbox = await create()
    for _ in range(2):
        result = await run(sandbox, code)
        assert_withstood(result)
        assert (result.status, result.exit_code) == ("exited", 9)
        assert result.stdout == b"ATTEMPT\nwrote []\n"
    result = await run(sandbox, code, reply_bytes=4000)
    assert (result.status, result.exit_code) == ("exited", 9)
    assert b"status6:exited" in (result.reply or b"")


async def test_no_core_file_is_written_anywhere(create):
    sandbox = await create()
    before = {path for path in ("/core", "core", "/tmp/core", "/var/crash") if os.path.exists(path)}
    code = "import os, resource, signal\nprint('ATTEMPT', resource.getrlimit(resource.RLIMIT_CORE), flush=True)\n"
    result = await run(sandbox, code + "os.kill(os.getpid(), signal.SIGSEGV)")
    assert result.signal == 11
    assert b"ATTEMPT (0, 0)" in result.stdout
    listing = await run(sandbox, "import os; print(os.listdir())")
    assert b"core" not in listing.stdout
    assert {path for path in ("/core", "core", "/tmp/core", "/var/crash") if os.path.exists(path)} == before
    with contextlib.suppress(FileNotFoundError):
        assert not [name for name in os.listdir("/var/crash") if "sandbox" in name]

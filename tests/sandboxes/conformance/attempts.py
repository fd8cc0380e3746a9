# ruff: noqa: E501 (the programs are texts)
"""Programs that try the ways out of a sandbox, one group each.

They print ATTEMPT before each act, DENIED with the reason, and BREACH if it got what it asked for. System calls are
written as numbers of x86_64.
"""

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
             "/proc/zz", "/run/zz", "/mnt/zz", "/var/zz", "/sandbox/zz", "/proc/sys/kernel/hostname"):
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
             "/proc/sys/net/ipv4/ping_group_range", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups"):
    attempt("open " + path, lambda: os.write(os.open(path, os.O_WRONLY), b"0"))
attempt("oom score", lambda: open("/proc/self/oom_score_adj", "w", buffering=1).write("-1\\n"))
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

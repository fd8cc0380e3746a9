"""Containers as sandboxes, against a real engine. Without one the tests are skipped, or fail where TURNGYM_REQUIRE
names `docker`."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from turngym.sandboxes.backends.docker import DockerBackend
from turngym.sandboxes.docker.config import IMAGE, DockerConfig
from turngym.sandboxes.docker.engine import Engine, look
from turngym.sandboxes.docker.owners import RUN, labels, reap
from turngym.sandboxes.errors import FileError, SandboxLost, SandboxUnavailable
from turngym.sandboxes.host.supervised import SupervisedSandbox
from turngym.sandboxes.limits import Limits

PYTHON = ["python3", "-c"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine()
    try:
        found.ask(lambda client: look(client, DockerConfig()))
    except SandboxUnavailable as error:
        found.close()
        if "docker" in re.findall(r"\w+", os.environ.get("TURNGYM_REQUIRE", "")):
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield found
    found.close()


@pytest.fixture
async def backend(engine: Engine) -> AsyncIterator[DockerBackend]:
    made = DockerBackend(DockerConfig(run_id=f"test-{secrets.token_hex(6)}"))
    yield made
    await made.close()


def names(engine: Engine, backend: DockerBackend) -> list[str]:
    run = backend._run_id
    found = engine.ask(lambda client: client.containers(all=True, filters={"label": f"{RUN}={run}"}))
    return [container["Names"][0].lstrip("/") for container in found]


async def text_of(sandbox: SupervisedSandbox, code: str, *, limits: Limits | None = None) -> str:
    result = await sandbox.exec([*PYTHON, code], limits=limits)
    assert result.ok, result
    return result.stdout_text.strip()


async def test_a_program_is_an_unprivileged_user_alone(backend: DockerBackend) -> None:
    sandbox = await backend.create()
    code = """
        import json, os
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(json.dumps({
            "ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups(), "cwd": os.getcwd(),
            "env": dict(os.environ), "fds": sorted(os.listdir("/proc/self/fd"))[:4],
            "status": {key: status[key].strip() for key in
                       ("CapPrm", "CapEff", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp")},
            "processes": [name for name in os.listdir("/proc") if name.isdigit()],
            "network": os.listdir("/sys/class/net"), "names": open("/etc/resolv.conf").read(),
        }))
    """
    seen = json.loads(await text_of(sandbox, "if True:\n" + code))
    assert len(set(seen["ids"])) == 1
    assert seen["ids"][0] >= 1000
    assert seen["groups"] == []
    assert seen["cwd"] == "/sandbox/home"
    assert set(seen["env"]) == {"HOME", "LANG", "PATH", "PYTHONDONTWRITEBYTECODE", "USER", "LOGNAME"}
    assert seen["fds"] == ["0", "1", "2", "3"]  # the last is the listing itself
    assert {value.strip("0") for value in seen["status"].values()} == {"", "1", "2"}
    assert len(seen["processes"]) == 2  # the supervisor and itself
    assert seen["network"] == ["lo"]
    assert seen["names"].split() == ["nameserver", "127.0.0.1"]


async def test_the_walls_are_the_engine_s(engine: Engine, backend: DockerBackend) -> None:
    await backend.create(Limits(memory_mib=100, processes=20))
    (name,) = names(engine, backend)
    found = engine.ask(lambda client: client.inspect_container(name))
    host = found["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert {cap.removeprefix("CAP_") for cap in host["CapAdd"]} == {"SETUID", "SETGID", "KILL"}
    assert host["ReadonlyRootfs"] is True
    assert host["AutoRemove"] is True
    assert not host["Privileged"]
    assert host["IpcMode"] == "none"
    assert host["Memory"] == host["MemorySwap"]
    assert host["PidsLimit"] == 21
    assert host["LogConfig"]["Type"] == "none"
    assert "no-new-privileges" in host["SecurityOpt"]
    assert any("seccomp=" in option and "io_uring" not in option for option in host["SecurityOpt"])
    assert not found["Mounts"]
    assert labels(backend._run_id).items() <= found["Config"]["Labels"].items()


async def test_the_filter_stops_what_the_default_profile_lets_through(backend: DockerBackend) -> None:
    sandbox = await backend.create()
    code = """if True:
        import ctypes, errno, os, socket
        def vsock(): socket.socket(40, socket.SOCK_STREAM)
        def raw(): socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
        def packet(): socket.socket(17, socket.SOCK_RAW)
        def call(number, *args):
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.syscall(number, *args) < 0:
                raise OSError(ctypes.get_errno(), "")
        def ring(): call(425, 8, ctypes.create_string_buffer(256))
        def user_namespace(): call({"x86_64": 272}.get(os.uname().machine, 97), 0x10000000)
        for attempt in (vsock, raw, packet, ring, user_namespace):
            try:
                attempt()
                print("BREACH", attempt.__name__)
            except OSError as error:
                print(attempt.__name__, errno.errorcode[error.errno])
    """
    seen = (await text_of(sandbox, code)).splitlines()
    assert len(seen) == 5
    assert not [line for line in seen if line.startswith("BREACH")]


async def test_how_programs_end(backend: DockerBackend) -> None:
    sandbox = await backend.create(Limits(memory_mib=64, wall_s=20, stdout_bytes=1000))
    ends = {
        "import sys; sys.exit(137)": ("exited", 137, None),
        "import os; os.kill(os.getpid(), 9)": ("signalled", None, 9),
        "import os; os.abort()": ("signalled", None, 6),
        "data = bytearray(400 << 20)": ("oom", None, None),
        "while True: print('x' * 100)": ("output_limit", None, None),
    }
    for code, expected in ends.items():
        result = await sandbox.exec([*PYTHON, code])
        assert (result.status, result.exit_code, result.signal) == expected, code
    result = await sandbox.exec(
        [*PYTHON, "import time; print('before', flush=True); time.sleep(60)"],
        limits=sandbox.limits.model_copy(update={"wall_s": 0.5}),
    )
    assert (result.status, result.stdout) == ("timeout", b"before\n")
    cold = await sandbox.exec(["/bin/sh", "-c", "echo cold; exit 3"])
    assert (cold.status, cold.exit_code, cold.stdout) == ("exited", 3, b"cold\n")
    assert (await sandbox.exec(["no-such-program"])).exit_code == 127


async def test_memory_that_takes_the_supervisor_is_a_result(backend: DockerBackend) -> None:
    sandbox = await backend.create(Limits(memory_mib=32, disk_mib=200, file_mib=200))
    # A small program that fills the disk, and makes itself as dear to the kernel as it can.
    line = "echo 0 > /proc/self/oom_score_adj; head -c 150000000 /dev/zero > /dev/shm/x; echo $?"
    assert (await sandbox.exec(["sh", "-c", line])).status == "oom"
    with pytest.raises(SandboxLost, match="want of memory"):
        await sandbox.exec(["true"])


async def test_a_container_that_somebody_kills_is_lost(engine: Engine, backend: DockerBackend) -> None:
    sandbox = await backend.create()
    (name,) = names(engine, backend)
    running = asyncio.ensure_future(sandbox.exec(["sleep", "30"]))
    await asyncio.sleep(0.3)
    await backend.engine.call(lambda client: client.kill(name))
    with pytest.raises(SandboxLost):
        await running
    await sandbox.close()
    assert names(engine, backend) == []


async def test_closing_ends_a_call_that_waits(engine: Engine, backend: DockerBackend) -> None:
    sandbox = await backend.create()
    running = asyncio.ensure_future(sandbox.exec(["sleep", "30"]))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await sandbox.close()
    with pytest.raises(SandboxLost):
        await running
    assert time.monotonic() - began < 5
    assert names(engine, backend) == []


async def test_the_supervisor_is_out_of_reach(backend: DockerBackend) -> None:
    sandbox = await backend.create()
    code = """if True:
        import os, signal
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
            for pid in (1, os.getppid()):
                try:
                    os.kill(pid, number)
                    print("BREACH", number)
                except PermissionError:
                    pass
        for name in ("environ", "mem", "maps", "fd", "cwd", "root", "stack", "syscall", "auxv"):
            path = f"/proc/1/{name}"
            try:
                open(path, "rb").read(1) if name not in ("fd", "cwd", "root") else os.listdir(path)
                print("BREACH", name)
            except OSError:
                pass
        print("done")
    """
    assert await text_of(sandbox, code) == "done"
    assert await text_of(sandbox, "print(1)") == "1"


async def test_nothing_of_a_program_outlives_it(backend: DockerBackend) -> None:
    sandbox = await backend.create()
    daemon = """if True:
        import os, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    while True:
                        time.sleep(1)
                os._exit(0)
        time.sleep(0.1)
        print(sum(name.isdigit() for name in os.listdir("/proc")))
    """
    assert int(await text_of(sandbox, daemon)) >= 5
    assert (
        await text_of(sandbox, "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))") == "2"
    )


async def test_files_belong_to_the_program(backend: DockerBackend) -> None:
    sandbox = await backend.create(Limits(disk_mib=4, inodes=32))
    await sandbox.write_file("a/run.sh", b"#!/bin/sh\necho ran $PWD\n", executable=True)
    assert (await sandbox.exec(["./run.sh"], cwd="a")).stdout == b"ran /sandbox/home/a\n"
    await text_of(
        sandbox, "import os; os.mkdir('own', 0o700); open('own/f', 'w').write('x'); os.chmod('own/f', 0o600)"
    )
    assert await sandbox.read_file("own/f") == b"x"
    assert (await sandbox.exec(["pwd"], cwd="own")).stdout == b"/sandbox/home/own\n"
    await text_of(sandbox, "import os; os.rename('a', 'b'); open('b/run.sh', 'w').write('changed')")
    assert await sandbox.read_file("b/run.sh") == b"changed"
    for path in ("/etc/shadow", "../tmp/x", "/proc/1/environ"):
        with pytest.raises(FileError):
            await sandbox.read_file(path)
    with pytest.raises(FileError):
        await sandbox.write_file("big", b"x" * (6 << 20))
    refused = await sandbox.exec(
        ["sh", "-c", "mv /sandbox/home /sandbox/x; touch /sandbox/x; touch /dev/x; touch /x; touch /etc/x"]
    )
    assert len(refused.stderr.splitlines()) == 5


async def test_the_disk_is_one_and_bounded(backend: DockerBackend) -> None:
    sandbox = await backend.create(Limits(disk_mib=4, inodes=32))
    code = """if True:
        import os
        for folder in ("/sandbox/home", "/tmp", "/var/tmp", "/dev/shm"):
            written = 0
            try:
                with open(folder + "/fill", "wb", buffering=0) as file:
                    while True:
                        written += file.write(bytes(1 << 16))
            except OSError as error:
                print(error.strerror, written >> 10, end=";")
        os.unlink("/sandbox/home/fill")
        made = 0
        try:
            while True:
                open(f"/tmp/{made}", "w").close()
                made += 1
        except OSError as error:
            print(error.strerror, made)
    """
    first, *rest, last = (await text_of(sandbox, code)).split(";")
    assert first == "No space left on device 4096"
    assert all(re.fullmatch(r"No space left on device [0-9]{1,2}", part) for part in rest), rest
    assert 20 <= int(last.rsplit(" ", 1)[1]) <= 32


async def test_honest_programs_work(backend: DockerBackend) -> None:
    sandbox = await backend.create()
    code = """if True:
        import asyncio, multiprocessing, socket, subprocess, tempfile, threading
        async def main():
            server = await asyncio.start_server(lambda r, w: (w.write(b"hi"), w.close()), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            print(await reader.read())
            writer.close()
            server.close()
        asyncio.run(main())
        with multiprocessing.Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
        thread = threading.Thread(target=print, args=("thread",), daemon=True)
        thread.start()
        thread.join()
        print(subprocess.run(["sh", "-c", "echo sub"], capture_output=True, text=True).stdout)
    """
    assert (await text_of(sandbox, code)).split() == ["b'hi'", "[1,", "2]", "thread", "sub"]


async def test_sessions_remember(backend: DockerBackend) -> None:
    sandbox = await backend.create()
    session = await sandbox.session()
    await session.run("x = 20")
    assert (await session.run("x + 1")).value == "21"
    assert (await sandbox.exec([*PYTHON, "print(1)"])).stdout == b"1\n"
    assert (await session.run("x + 2")).value == "22"
    await session.close()


async def test_sandboxes_side_by_side_are_strangers(engine: Engine, backend: DockerBackend) -> None:
    sandboxes = await asyncio.gather(*(backend.create() for _ in range(3)))
    for number, sandbox in enumerate(sandboxes):
        await sandbox.write_file("own", str(number).encode())
    code = "import os, time; time.sleep(0.5); print(os.getuid(), open('own').read(), len(os.listdir('.')))"
    began = time.monotonic()
    seen = [text.split() for text in await asyncio.gather(*(text_of(sandbox, code) for sandbox in sandboxes))]
    assert time.monotonic() - began < 1.5 + 2
    assert len({user for user, _, _ in seen}) == 3
    assert [own for _, own, _ in seen] == ["0", "1", "2"]
    assert len(names(engine, backend)) == 3
    await sandboxes[0].close()
    assert len(names(engine, backend)) == 2
    await backend.close()
    assert names(engine, backend) == []
    with pytest.raises(SandboxUnavailable, match="closed"):
        await backend.create()


async def test_a_network_only_where_it_is_asked_for(backend: DockerBackend) -> None:
    sandbox = await backend.create(Limits(network=True))
    assert "eth0" in await text_of(sandbox, "import os; print(os.listdir('/sys/class/net'))")


async def test_nothing_is_left_after_many_executions(engine: Engine, backend: DockerBackend) -> None:
    sandbox = await backend.create()
    await text_of(sandbox, "print(0)")
    (name,) = names(engine, backend)
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(200):
        assert await text_of(sandbox, f"print({number})") == str(number)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    running = engine.ask(lambda client: client.top(name))["Processes"]
    assert len(running) == 1
    inside = await text_of(
        sandbox, "import os; print(len(os.listdir('/sandbox/home')), len(os.listdir('/sandbox/tmp')))"
    )
    assert inside == "0 0"
    await sandbox.close()
    assert names(engine, backend) == []


async def test_a_wait_that_is_given_up_leaves_nothing(engine: Engine, backend: DockerBackend) -> None:
    given_up = 0
    for delay_s in (0.01, 0.05, 0.1, 0.2, 0.4):
        making = asyncio.ensure_future(backend.create())
        await asyncio.sleep(delay_s)
        making.cancel()
        try:
            await (await making).close()
        except asyncio.CancelledError:
            given_up += 1
    assert given_up >= 1
    assert names(engine, backend) == []
    assert await text_of(await backend.create(), "print(1)") == "1"


OWNER = """
import asyncio, sys
from turngym.sandboxes.backends.docker import DockerBackend
from turngym.sandboxes.docker.config import DockerConfig

async def main():
    sandbox = await DockerBackend(DockerConfig(run_id=sys.argv[1])).create()
    running = asyncio.ensure_future(sandbox.exec(["sleep", "60"]))
    await asyncio.sleep(0.3)
    print("running", flush=True)
    await running

asyncio.run(main())
"""


def test_the_container_of_a_killed_owner_ends(engine: Engine) -> None:
    run = f"test-{secrets.token_hex(6)}"
    with subprocess.Popen([sys.executable, "-c", OWNER, run], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"running\n"
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 15
    while engine.ask(lambda client: client.containers(all=True, filters={"label": f"{RUN}={run}"})):
        assert time.monotonic() < deadline, "the supervisor goes on without its host"
        time.sleep(0.1)


BUSY = """
import asyncio, sys
from turngym.sandboxes.backends.docker import DockerBackend
from turngym.sandboxes.docker.config import DockerConfig

async def work(backend):
    while True:
        async with await backend.create() as sandbox:
            await sandbox.write_file("x", b"1")
            await sandbox.exec(["sleep", "0.1"])

async def main():
    backend = DockerBackend(DockerConfig(run_id=sys.argv[1]))
    async with await backend.create(): print("begun", flush=True)
    await asyncio.gather(work(backend), work(backend))

asyncio.run(main())
"""
KILLS = int(os.environ.get("TURNGYM_TEST_KILLS", "3"))


@pytest.mark.slow
@pytest.mark.timeout(60 + 20 * KILLS)
def test_an_owner_that_is_killed_leaves_nothing_that_the_reaper_does_not_find(engine: Engine) -> None:
    """At any moment: while it creates, uses, and removes containers."""
    draw = random.Random(5)
    run = f"test-{secrets.token_hex(6)}"

    def left() -> list[Any]:
        return engine.ask(lambda client: client.containers(all=True, filters={"label": f"{RUN}={run}"}))

    for number in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", BUSY, run], stdout=subprocess.PIPE) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"begun\n"
            time.sleep(draw.uniform(0, 1.0))
            owner.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 15
        quiet = 0
        while quiet < 3:  # what the owner had asked for last may still come into being
            reap()
            quiet = 0 if left() else quiet + 1
            assert time.monotonic() < deadline, f"after kill {number}: {left()}"
            time.sleep(0.1)


def test_the_reaper_takes_the_running_containers_of_the_dead_alone(engine: Engine) -> None:
    def sleeper(client: Any, found: dict[str, str]) -> str:
        made = client.create_container(
            IMAGE, ["sleep", "60"], labels=found, host_config=client.create_host_config(auto_remove=True)
        )
        client.start(made["Id"])
        identity: str = made["Id"]
        return identity

    own = labels("test")
    dead = engine.ask(lambda client: sleeper(client, {**own, "turngym.owner.start": "1"}))
    alive = engine.ask(lambda client: sleeper(client, own))
    far = engine.ask(
        lambda client: sleeper(client, {**own, "turngym.owner.start": "1", "turngym.owner.place": "x"})
    )
    try:
        assert len(reap()) <= 1  # none if another process of the tests, which starts a backend, was faster
        left = {item["Id"] for item in engine.ask(lambda client: client.containers(all=True))}
        assert dead not in left
        assert {alive, far} <= left
        assert reap() == []
    finally:
        for identity in (alive, far):
            engine.ask(lambda client, identity=identity: client.remove_container(identity, force=True))


@pytest.fixture
def other_image(engine: Engine) -> Iterator[str]:
    """An image such as anybody's: its own /tmp, user, volume and health check."""
    recipe = (
        f"FROM {IMAGE}\nRUN rm /tmp /var/tmp && mkdir -m 1777 /tmp /var/tmp && rmdir /sandbox && mkdir -m 777 /data\n"
        "LABEL turngym.disk=own\nVOLUME /data\nUSER nobody\nENV SECRET=of-the-image\n"
        'HEALTHCHECK --interval=1s CMD ["false"]\nENTRYPOINT ["false"]\n'
    ).encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(recipe)
        archive.addfile(info, io.BytesIO(recipe))
    tag = f"turngym-test-{secrets.token_hex(4)}"
    log = engine.ask(
        lambda client: list(
            client.build(
                fileobj=io.BytesIO(context.getvalue()),
                custom_context=True,
                tag=tag,
                network_mode="none",
                rm=True,
                decode=True,
            )
        )
    )
    assert not [line for line in log if "error" in line], log
    yield tag
    engine.ask(lambda client: client.remove_image(tag, force=True))


async def test_an_image_of_somebody_else_s_works(engine: Engine, other_image: str) -> None:
    backend = DockerBackend(DockerConfig(image=other_image, warm=False))
    try:
        sandbox = await backend.create(Limits(disk_mib=4))
        await sandbox.write_file(
            "x.py", b"import os; print(os.getcwd(), open('/tmp/y', 'w').write('123'), *os.environ)"
        )
        result = await sandbox.exec(["python3", "x.py"])
        assert result.stdout.split() == [
            b"/sandbox/home",
            b"3",
            *sorted(result.stdout.split()[2:], key=result.stdout.find),
        ]
        assert b"SECRET" not in result.stdout
        refused = await sandbox.exec(
            ["sh", "-c", "touch /data/x; touch /var/tmp/x; head -c 6000000 /dev/zero > /tmp/z"]
        )
        assert len(refused.stderr.splitlines()) == 3
    finally:
        await backend.close()


async def test_what_is_missing_is_named(engine: Engine) -> None:
    for config, message in (
        (DockerConfig(image="turngym-no-such-image"), "docker build -t turngym-no-such-image"),
        (DockerConfig(runtime="no-such-runtime"), "no runtime 'no-such-runtime'"),
        (DockerConfig(python="/no/such/python"), "/no/such/python"),
    ):
        backend = DockerBackend(config)
        with pytest.raises(SandboxUnavailable, match=message):
            await backend.create()
        await backend.close()


async def test_an_engine_that_is_not_there_is_named() -> None:
    pytest.importorskip("docker")
    backend = DockerBackend(DockerConfig(engine="unix:///no/such/engine.sock"))
    with pytest.raises(SandboxUnavailable, match="DOCKER_HOST"):
        await backend.create()
    await backend.close()

"""A backend that has made hundreds of sandboxes holds no more than one that has made a few."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from pathlib import Path

import pytest
from conformance.helpers import descendants, mounts, within

ROUNDS = 300


def figures():
    """What could grow: on the host, in this process, and in the helpers that live on."""
    gc.collect()
    found = descendants()
    below = [pid for (pid, _), label in found.items() if not label.endswith("(Z)")]
    return {
        "processes": len(found),
        "own descriptors": len(os.listdir("/proc/self/fd")),
        "own threads": len(os.listdir("/proc/self/task")),
        "helpers' descriptors": max((len(os.listdir(f"/proc/{pid}/fd")) for pid in below), default=0),
        "helpers' mounts": max(
            (Path(f"/proc/{pid}/mountinfo").read_text().count("\n") for pid in below), default=0
        ),
        "host mounts": mounts(),
        "temporary files": len([name for name in os.listdir(tempfile.gettempdir()) if "turngym" in name]),
    }


async def assert_not_more(before):
    """For a moment others may have mounts and temporary files too."""
    for _ in range(50):
        after = figures()
        more = {
            name: (before[name], after[name])
            for name in before
            if after[name] > before[name] + ("own" in name)
        }
        if not more:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(more)


def memory_mib():
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid, _ in descendants())
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def one(backend, number):
    async with await backend.create() as sandbox:
        await sandbox.write_file("n", str(number).encode())
        result = await sandbox.exec(["python3", "-c", "print(open('n').read())"])
        assert result.stdout == b"%d\n" % number
        if number % 30 == 0:
            await sandbox.exec(
                ["python3", "-c", "import os\nif os.fork() == 0: os.setsid(); os.read(0, 1)\nos._exit(3)"]
            )
            await sandbox.exec(["python3", "-c", "import socket; socket.create_server(('127.0.0.1', 0))"])


async def test_hundreds_of_sandboxes_leave_no_trace(kind, countable, backend):
    rounds = ROUNDS if kind.name == "namespace" else ROUNDS // 6
    for number in range(15):
        await one(backend, number)
    before, memory = figures(), memory_mib()
    with within(60):
        for number in range(rounds):
            await one(backend, number)
    await assert_not_more(before)
    assert memory_mib() < memory + 10


async def test_hundreds_of_programs_in_one_sandbox_leave_no_trace(kind, countable, create):
    sandbox = await create()
    for _ in range(5):
        await sandbox.exec(["python3", "-c", "print(1)"])
    before = figures()
    for number in range(100 if kind.warm else 40):
        result = await sandbox.exec(["python3", "-c", "print(1)"], stdin=b"x" * 100)
        assert result.stdout == b"1\n", number
        await sandbox.write_file(f"f{number % 7}", b"x")
        await sandbox.read_file(f"f{number % 7}")
    await assert_not_more(before)


@pytest.mark.only_for(when=lambda kind: kind.warm)
async def test_the_slots_that_are_used_again_are_the_few_that_were_made(countable, backend):
    await one(backend, 1)
    before = set(descendants())
    for number in range(10):
        await one(backend, number)
    assert set(descendants()) == before


@pytest.mark.only_for(when=lambda kind: kind.warm)
async def test_a_slot_is_not_used_again_after_a_broken_end(countable, backend):
    """Whoever cannot be asked whether all is dead is not asked to make another sandbox."""
    sandbox = await backend.create()
    await sandbox.write_file("x", b"")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await sandbox.exec(["python3", "-c", "import time; time.sleep(60)"])
    await sandbox.close()
    await one(backend, 1)


SEARCH = """
import re
wanted = re.compile(rb"no-one-else[-]sees-this")  # the text itself is nowhere in here
found = []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        first, last, rights, *name = re.match(r"(\\w+)-(\\w+) (\\S+) \\S+ \\S+ \\S+ *(.*)", line).groups()
        if "r" in rights and not name[0].startswith(("[v", "/")):
            memory.seek(int(first, 16))
            try: data = memory.read(int(last, 16) - int(first, 16))
            except OSError: continue
            found.append(wanted.search(data) is not None)
print("searched", len(found) > 5, "found", any(found))
"""


# Programs of the other kinds are forks of their sandbox's supervisor, as docs/sandboxes.md says.
@pytest.mark.only_for(when=lambda kind, same: kind.pristine or not same)
@pytest.mark.parametrize("same", [True, False], ids=["same sandbox", "next sandbox"])
async def test_no_program_holds_in_its_memory_what_another_was_given(isolating, create, same):
    """However a program is made: what its supervisor has seen of others is not in its memory."""
    first = await create()
    secret = "-".join(["no-one-else", "sees-this"])
    await first.write_file("secret", secret.encode())
    session = await first.session()
    await session.run(f"x = {secret!r}; x")
    code = f"import sys; print({secret!r}, sys.stdin.read(), open('secret').read())"
    result = await first.exec(
        ["python3", "-c", code, secret], stdin=secret.encode() * 100, env={"SECRET": secret}, reply_bytes=100
    )
    assert result.stdout.count(secret.encode()) == 102
    assert await first.read_file("secret") == secret.encode()
    await session.close()
    if not same:
        await first.close()
    for _ in range(3):
        other = first if same else await create()
        result = await other.exec(["python3", "-c", SEARCH])
        assert result.stdout == b"searched True found False\n", result

"""The hostile and awkward programs of `attacks/manifest.json`, each held to what its entry asks.

They lie beside the checkout (`../shared/attacks`, or the folder in TURNGYM_ATTACKS). Without them these tests are
skipped, or fail where TURNGYM_REQUIRE names `attacks`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from conformance.helpers import (
    ENV_CANARY,
    Canaries,
    Listeners,
    Usage,
    alone,
    assert_no_survivors,
    assert_withstood,
    both,
    descendants,
    limits_of,
    new_canary,
    within,
)

from turngym.sandboxes.errors import FileError, SandboxError

ATTACKS = Path(os.environ.get("TURNGYM_ATTACKS") or Path(__file__).parents[3] / ".." / "shared" / "attacks")
MANIFEST = (
    json.loads((ATTACKS / "manifest.json").read_text("utf-8"))
    if ATTACKS.is_dir()
    else {"programs": [], "file_api": []}
)
ENTRIES = {entry["id"]: entry for entry in MANIFEST["programs"]}
HARMLESS = {
    "output_awkward",
    "stdin",
    "exit_status",
    "sleep",
    "cpu_burn",
    "ignores_sigterm",
    "child_left",
    "daemon",
}
"""Kinds of entries that ask for no walls."""


def test_the_attacks_are_there():
    if not ENTRIES:
        reason = f"no attacks at {ATTACKS.resolve()}: set TURNGYM_ATTACKS to the folder that holds them"
        if "attacks" in re.findall(r"[\w-]+", os.environ.get("TURNGYM_REQUIRE", "")):
            pytest.fail(reason)
        pytest.skip(reason)
    assert {entry["file"] for entry in ENTRIES.values()} <= {path.name for path in ATTACKS.iterdir()}


def stdin_of(entry):
    given = entry.get("stdin", "")
    if isinstance(given, str):
        return given.encode()
    if "base64" in given:
        return base64.b64decode(given["base64"])
    return given["repeat"].encode() * given["count"]


def is_exact(expected, data):
    if "utf8" in expected:
        return data == expected["utf8"].encode()
    if "base64" in expected:
        return data == base64.b64decode(expected["base64"])
    if "repeat" in expected:
        return data == expected["repeat"].encode() * expected["count"]
    return (hashlib.sha256(data).hexdigest(), len(data)) == (expected["sha256"], expected["bytes"])


async def put_and_run(sandbox, file, **options):
    await sandbox.write_file(file, (ATTACKS / file).read_bytes())
    return await sandbox.exec(["python3", file], **options)


async def neighbour(backend, canary):
    """The harmless sibling, in a sandbox of its own."""
    async with await backend.create(limits_of(MANIFEST["defaults"]["limits"])) as sandbox:
        file = MANIFEST["companions"]["sibling"]
        return await put_and_run(sandbox, file, stdin=canary.encode() + b"\n")


async def assert_next_is_clean(backend):
    """Whatever slots there are, the next programs in them find nothing of the last."""
    limits = limits_of(MANIFEST["defaults"]["limits"])
    async with await backend.create(limits) as first, await backend.create(limits) as second:
        for sandbox in (first, second):
            result = await put_and_run(sandbox, MANIFEST["companions"]["probe"])
            assert result.stdout == b"CLEAN\n", both(result)


@pytest.mark.only_for(when=lambda kind, name: kind.isolates or ENTRIES[name]["category"] in HARMLESS)
@pytest.mark.parametrize("name", ENTRIES)
async def test_attack(kind, countable, backend, name):
    entry = ENTRIES[name]
    asked = dict(text.partition(":")[::2] for text in entry.get("host_invariants", ()))
    tries = 3 if "host_alive" in asked else 1  # others use the host's memory too
    for _ in range(tries):
        growth = await attack(kind, backend, entry, asked)
        if growth <= float(asked.get("host_alive") or "inf"):
            return
    pytest.fail(f"the host's memory or disk grew by {growth:.0f} MiB")


async def attack(kind, backend, entry, asked):
    """Run one entry and check everything but `host_alive`, whose figure is returned."""
    limits = limits_of({**MANIFEST["defaults"]["limits"], **entry.get("limits", {})})
    canary = new_canary()
    with contextlib.ExitStack() as stack:
        planted = None
        if any(name.startswith("canary") for name in asked) or "no_network" in asked:
            stack.enter_context(alone())
            planted = stack.enter_context(Canaries())
        listeners = stack.enter_context(Listeners()) if "no_network" in asked else None
        usage = stack.enter_context(Usage()) if "host_alive" in asked else None
        sibling = None
        if "sibling_unaffected" in asked:
            sibling = asyncio.create_task(neighbour(backend, canary))
            await asyncio.sleep(0.15)
        async with await backend.create(limits) as sandbox:
            await sandbox.write_file(entry["file"], (ATTACKS / entry["file"]).read_bytes())
            before = descendants()  # the supervisor is there: it has answered
            with within(float(asked.get("returns_within") or 15)):
                result = await sandbox.exec(["python3", entry["file"]], stdin=stdin_of(entry))
            if sibling is not None:
                other = await sibling
                assert (other.status, other.exit_code) == ("exited", 0), both(other)
                assert other.stdout.strip() == b"SIBLING OK", both(other)
            assert_no_survivors(before)
            assert_entry(entry, asked, result, limits)
            answers = [both(result), *(await file_calls(sandbox, "after", entry["id"], planted))]
            if planted is not None:
                planted.assert_unread(*answers)
            assert canary.encode() not in b"".join(answers)
            assert ENV_CANARY.encode() not in b"".join(answers)
        if planted is not None:
            planted.assert_unwritten()
        if listeners is not None:
            listeners.assert_untouched()
        if "next_run_clean" in asked:
            await assert_next_is_clean(backend)
        return 0.0 if usage is None else usage.growth_mib()


def assert_entry(entry, asked, result, limits):
    expect = entry["expect"]
    assert result.status in expect["status"], (result.status, both(result)[-2000:])
    if result.status == "exited" and "exit_code" in expect:
        assert result.exit_code == expect["exit_code"]
    if result.status == "signalled" and "signal" in expect:
        assert result.signal == expect["signal"]
    for stream in (result.stdout, result.stderr):
        assert len(stream) <= int(asked.get("output_bounded") or limits.stdout_bytes)
    if "stdout_exact" in asked:
        assert is_exact(entry["stdout_exact"], result.stdout), result.stdout[:2000]
    if entry["evidence"]:
        assert_withstood(result, *entry["evidence"])


async def file_calls(sandbox, when, program, planted):
    """The calls on the file interface that belong to a program; what came of each is checked and returned."""
    answers = []
    for call in MANIFEST["file_api"]:
        if (call["when"], call["program"]) != (when, program):
            continue
        where = f"{call['op']} {call['path'][:80]}"
        answer = None
        with within(5):
            try:
                if call["op"] == "read_file":
                    answer = await sandbox.read_file(call["path"])
                    answers.append(answer)
                else:
                    await sandbox.write_file(call["path"], b"zz_attack_marker")
            except FileError as error:
                refusal = str(error)
                answers.append(refusal.encode())
            else:
                refusal = ""
        if call["must"] == "refused":
            assert refusal, f"{where} was not refused"
        if call["must"].startswith("content:"):
            assert answer == call["must"].removeprefix("content:").encode(), where
        if planted is not None:
            planted.assert_unread(*answers)
            planted.assert_unwritten()
    return answers


async def test_the_file_interface_before_any_program(isolating, create):
    with alone(), Canaries() as planted:
        for when in ("before", "during"):
            sandbox = await create()
            answers = await file_calls(sandbox, when, None, planted)
            assert answers or when == "during"
            assert (await sandbox.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"


async def test_the_file_interface_during_a_program(isolating, create):
    """A call waits for the program's end, or is served beside it; it never breaks either."""
    during = [call for call in MANIFEST["file_api"] if call["when"] == "during"]
    with alone(), Canaries() as planted:
        sandbox = await create(wall_s=2)
        await sandbox.write_file(
            "farm.py",
            (ATTACKS / "27_link_farm.py").read_bytes() + b"\ntime = __import__('time')\ntime.sleep(1)\n",
        )
        running = asyncio.create_task(sandbox.exec(["python3", "farm.py"]))
        await asyncio.sleep(0.1)
        for call in during or [
            {"op": "read_file", "path": "link_abs"},
            {"op": "write_file", "path": "link_write"},
        ]:
            with within(5), contextlib.suppress(SandboxError):
                if call["op"] == "read_file":
                    planted.assert_unread(await sandbox.read_file(call["path"]))
                else:
                    await sandbox.write_file(call["path"], b"zz_attack_marker")
        assert (await running).ok
        planted.assert_unwritten()

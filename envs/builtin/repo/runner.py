"""Runs hidden tests on the agent's files, in a fresh sandbox. Sent there as text; it imports nothing of the agent's.

Each test runs in a process of its own, forked from here, and only that process imports the repository. It reports
by a word that is drawn anew for each test and is told to nobody else. So a repository that exits, kills, prints,
writes to descriptors, or patches unittest in another test's process reports nothing. What remains: test and repository
share a process, and code that searches that process's memory can find the word (see docs/envs/repo.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any

REPLY_FD = 3
PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


def main() -> None:
    """Read the request (JSON on standard input), run each test, and write the outcomes to descriptor 3."""
    request = json.loads(sys.stdin.read())
    ctypes.CDLL(None).prctl(
        4, 0, 0, 0, 0
    )  # PR_SET_DUMPABLE: our memory and descriptors are closed to children
    devnull = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(devnull, fd)
    outcomes = {name: run(name, request) for name in request["tests"]}
    os.write(REPLY_FD, json.dumps(outcomes).encode())
    os._exit(0)


def run(name: str, request: dict[str, Any]) -> str:
    """Say "ok", "failed" or "timeout" of one test."""
    word = os.urandom(32).hex()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(readable)
            os.close(REPLY_FD)
            os.setsid()
            if passes(name, request["hidden"]):
                os.write(writable, word.encode())
        finally:
            os._exit(0)
    os.close(writable)
    try:
        said = listen(readable, request["seconds"])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(readable)
    if said is None:
        return "timeout"
    return "ok" if said == word.encode() else "failed"


def listen(fd: int, seconds: float) -> bytes | None:
    """All that is written to a pipe, up to a few hundred bytes; None if the time is up first."""
    said, end = b"", time.monotonic() + seconds
    while len(said) < 512:
        left = end - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return None
        piece = os.read(fd, 512)
        if not piece:
            break
        said += piece
    return said


def passes(name: str, source: str) -> bool:
    """True if a test of the hidden module passes on the repository in the current folder."""
    import unittest

    strict(unittest)
    trusted = fingerprint(unittest)

    sys.path.insert(0, os.getcwd())
    module: dict[str, Any] = {"__name__": "hidden_tests"}
    exec(compile(source, "hidden_tests", "exec"), module)
    cls, method = name.split(".")
    if fingerprint(unittest) != trusted:
        return False
    test = module[cls](method)
    result = unittest.TestResult()
    test.run(result)
    ran = result.testsRun == 1 and not (result.failures or result.errors or result.skipped)
    return (
        ran
        and not (result.expectedFailures or result.unexpectedSuccesses)
        and fingerprint(unittest) == trusted
    )


def fingerprint(unittest: Any) -> list[tuple[str, list[tuple[str, int]]]]:
    """Identities of what a test relies on, so that a change of it is seen."""
    watched = (
        unittest.TestCase,
        unittest.TestResult,
        unittest.case._Outcome,
        unittest.case._AssertRaisesContext,
    )
    return [(one.__name__, sorted((key, id(value)) for key, value in vars(one).items())) for one in watched]


def strict(unittest: Any) -> None:
    """Make assertEqual compare plain values by type and value, so that no object is equal to everything."""
    plain = unittest.TestCase.assertEqual

    def assert_equal(self: Any, first: Any, second: Any, msg: Any = None) -> None:
        if same(first, second) is False:
            raise self.failureException(f"{type(first)} is not {type(second)}")
        plain(self, first, second, msg)

    unittest.TestCase.assertEqual = assert_equal


def same(first: Any, second: Any) -> bool | None:
    """False if one is a plain value and the other is of another type (bool and int are two), at any depth."""
    if type(second) not in PLAIN and type(first) not in PLAIN:
        return None
    if type(first) is not type(second):
        return False
    if type(first) in (list, tuple):
        return len(first) == len(second) and all(same(a, b) is not False for a, b in zip(first, second))
    if type(first) is dict:
        return first.keys() == second.keys() and all(
            same(first[key], second[key]) is not False for key in first
        )
    return True


if __name__ == "__main__":
    main()

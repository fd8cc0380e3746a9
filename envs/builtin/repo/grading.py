"""Whether the agent's files pass the hidden tests: a fresh sandbox, pristine tests, a verdict by its own channel."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turngym.envs.builtin.repo.workspace import packed
from turngym.envs.errors import GradingError
from turngym.sandboxes import Limits
from turngym.sandboxes.service import SandboxService

_RUNNER: Final = (Path(__file__).parent / "runner.py").read_text(encoding="utf-8")
_TEST_S: Final = 5.0
_REPLY_BYTES: Final = 1 << 16
# What Python runs or imports by itself, wherever it lies.
_SELF_STARTING: Final = frozenset({"sitecustomize.py", "usercustomize.py", "conftest.py"})


async def grade(
    service: SandboxService,
    target: Mapping[str, Any],
    original: Mapping[str, str],
    files: Mapping[str, bytes],
    limits: Limits,
) -> dict[str, bool]:
    """Which hidden tests pass, by name.

    Args:
        service: makes the sandbox.
        target: the task's: `hidden` (a unittest module) and `tests` (the names of its tests).
        original: the files as the agent got them.
        files: the files as the agent left them.
        limits: of the sandbox.

    Raises:
        SandboxError: the sandbox failed.
        GradingError: it has no Python.
    """
    names: list[str] = target["tests"]
    request = json.dumps({"hidden": target["hidden"], "tests": names, "seconds": _TEST_S})
    wall_s = _TEST_S * len(names) + 5.0
    async with await service.create(limits) as sandbox:
        await sandbox.unpack(packed(judged(original, files)))
        result = await sandbox.exec(
            ["python3", "-I", "-B", "-c", _RUNNER],
            stdin=request.encode(),
            limits=limits.model_copy(update={"wall_s": wall_s, "cpu_s": wall_s}),
            reply_bytes=_REPLY_BYTES,
        )
    try:
        outcomes = json.loads(result.reply or b"")
    except ValueError:
        outcomes = {}
        if result.status == "exited" and result.exit_code == 127:
            raise GradingError(f"no python3 runs in the sandbox: {result.stderr_text[-200:]}") from None
    if not isinstance(outcomes, dict):
        outcomes = {}
    return {name: outcomes.get(name) == "ok" for name in names}


def judged(original: Mapping[str, str], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that are judged: the agent's, without what could run by itself or stand for a module of Python's, and
    with the visible tests as they were.
    """
    kept = {}
    for path, data in files.items():
        first, _, _ = path.partition("/")
        module = first.removesuffix(".py").partition(".")[0]
        is_own = path in original or any(name.startswith(f"{first}/") for name in original if "/" in name)
        shadows = module in sys.stdlib_module_names and not is_own
        runs_itself = path.rpartition("/")[2] in _SELF_STARTING or path.endswith(".pth")
        if not shadows and not runs_itself and first != "tests":
            kept[path] = data
    kept |= {path: text.encode() for path, text in original.items() if path.startswith("tests/")}
    return kept

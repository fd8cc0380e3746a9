"""Requests to a supervisor and its answers, as the host's types."""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from turngym.sandboxes.errors import FileError, FileTooLarge, SandboxError, SandboxLost, SessionLost
from turngym.sandboxes.limits import MIB, Limits
from turngym.sandboxes.results import STATUSES, ExecResult, SessionResult

BASE_ENV: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
"""Variables of every program, beside HOME."""


_ANY_PYTHON: Final = 2  # a version of the format that every interpreter reads
_MAX_ARGUMENTS = 4096
_MAX_TEXTS = 2_000_000  # a quarter of the usual stack is what the kernel takes
_MAX_TEXT = 120_000  # the kernel takes no single argument of 128 KiB or more


def program_env(home: str, further: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables of a program: those of every one, where its home is, and those that its backend adds."""
    return {**BASE_ENV, "HOME": home, **(further or {})}


def limit_fields(limits: Limits) -> dict[str, int]:
    """The limits of one program, in whole units."""
    return {
        "wall_ms": max(1, round(limits.wall_s * 1000)),
        "cpu_ms": max(1, round(limits.cpu_s * 1000)),
        "memory_mib": limits.memory_mib,
        "processes": limits.processes,
        "file_mib": limits.file_mib,
        "open_files": limits.open_files,
        "stdout_bytes": limits.stdout_bytes,
        "stderr_bytes": limits.stderr_bytes,
    }


def exec_request(
    argv: Sequence[str],
    *,
    stdin: bytes,
    cwd: str,
    env: Mapping[str, str],
    limits: Limits,
    reply_bytes: int | None,
) -> dict[str, Any]:
    """A request to run a program.

    Raises:
        ValueError: there is no program, an argument holds a zero byte, they are too long, or so is `stdin`.
        TypeError: `argv` is one text: a shell line is never run.
    """
    if isinstance(argv, (str, bytes)):
        raise TypeError('argv is a list of texts: ["sh", "-c", line] runs a shell line')
    if not argv or len(argv) > _MAX_ARGUMENTS:
        raise ValueError(f"argv holds {len(argv)} texts; it needs 1 to {_MAX_ARGUMENTS}")
    for text in (*argv, cwd, *env.keys(), *env.values()):
        if "\0" in text:
            raise ValueError("a program's arguments and variables cannot hold a zero byte")
        if len(os.fsencode(text)) > _MAX_TEXT:
            raise ValueError(f"one argument is longer than {_MAX_TEXT} bytes: write it to a file")
    if sum(len(os.fsencode(text)) for text in (*argv, *env.keys(), *env.values())) > _MAX_TEXTS:
        raise ValueError(
            f"arguments and variables are longer than {_MAX_TEXTS} bytes together: write it to a file"
        )
    if any("=" in key or not key for key in env):
        raise ValueError("the name of a variable is not empty and holds no '='")
    if len(stdin) > limits.memory_mib * MIB // 4:
        raise ValueError(
            f"a standard input of {len(stdin)} bytes is more than a quarter of the sandbox's memory "
            f"({limits.memory_mib} MiB), where it waits to be read: write it to a file"
        )
    fields = limit_fields(limits)
    program = {"argv": list(argv), "cwd": cwd, "env": dict(env), "limits": fields}
    request: dict[str, Any] = {
        "verb": "exec",
        # The supervisor hands it on unread; the child that becomes the program takes it apart.
        "program": marshal.dumps(program, _ANY_PYTHON),
        "stdin": stdin,
        "limits": fields,
    }
    if reply_bytes is not None:
        request["reply_bytes"] = reply_bytes
    return request


def exec_result(answer: Mapping[str, Any], limits: Limits) -> ExecResult:
    """An answer to an exec request.

    Raises:
        SandboxLost: it is none: the supervisor is not what it was.
        SandboxError: the supervisor could not run anything.
    """
    raise_error(answer)
    try:
        status = answer["status"].decode()
        if status not in STATUSES:
            raise ValueError(status)
        return ExecResult(
            status=status,
            exit_code=int(answer["exit_code"]) if status == "exited" else None,
            signal=int(answer["signal"]) if status == "signalled" else None,
            stdout=answer["stdout"][: limits.stdout_bytes],
            stderr=answer["stderr"][: limits.stderr_bytes],
            stdout_truncated=bool(answer["stdout_truncated"]),
            stderr_truncated=bool(answer["stderr_truncated"]),
            wall_s=answer["wall_us"] / 1e6,
            cpu_s=answer["cpu_us"] / 1e6,
            peak_memory_mib=answer["peak_kib"] / 1024,
            reply=answer.get("reply"),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise SandboxLost(f"the sandbox's supervisor gave an answer that is none: {error!r}") from error


def session_result(answer: Mapping[str, Any]) -> SessionResult:
    """An answer to a piece of code.

    Raises:
        SessionLost: the interpreter is gone.
        SandboxLost: it is no answer.
    """
    raise_error(answer)
    try:
        status = answer["status"].decode()
        stdout, stderr = answer["stdout"], answer["stderr"]
        if status == "lost":
            raise SessionLost(
                "the interpreter is gone, and its variables with it: it ended, or went on after it was interrupted",
                stdout=stdout,
                stderr=stderr,
            )
        if status not in ("ok", "error", "interrupted"):
            raise ValueError(status)
        value = answer.get("value")
        return SessionResult(
            status=status,
            stdout=stdout,
            stderr=stderr,
            stdout_truncated=bool(answer["stdout_truncated"]),
            stderr_truncated=bool(answer["stderr_truncated"]),
            value=None if value is None else value.decode("utf-8", "replace"),
            wall_s=answer["wall_us"] / 1e6,
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise SandboxLost(f"the sandbox's supervisor gave an answer that is none: {error!r}") from error


def raise_error(answer: Mapping[str, Any], path: str = "") -> None:
    """Raise what an answer reports.

    Raises:
        FileError, FileTooLarge: the file interface refused.
        SandboxError: the supervisor failed at something else.
    """
    kind = answer.get("error")
    if kind is None:
        return
    message = answer.get("message", b"").decode("utf-8", "replace")
    where = f"{path!r}: " if path else ""
    if kind == b"too large":
        raise FileTooLarge(f"{where}too large: {message}")
    if kind == b"refused" or path:
        raise FileError(f"{where}{message}")
    raise SandboxError(f"the sandbox's supervisor: {message}")

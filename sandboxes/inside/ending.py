"""How a forked Python program ends: as an interpreter would, without the time that taking one apart costs.

Threads are joined, exit functions called, the program's own objects dropped, and files that it left open flushed.
What was there before the program began is left as it is.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLUSH_FAILED = 120
"""Exit code of an interpreter that cannot flush its standard output."""


def report(error: BaseException) -> int:
    """Print what nobody caught, as an interpreter does, and return the exit code."""
    if isinstance(error, SystemExit):
        return _exit_code(error)
    trace: Any = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<turngym>"):
        trace = trace.tb_next
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException as other:  # noqa: BLE001 (the program may have put anything there)
        sys.__excepthook__(type(other), other, other.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        import signal

        flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1


def finish(code: int) -> None:
    """End the process with this exit code, unless flushing fails."""
    end_threads = getattr(sys.modules.get("threading"), "_shutdown", None)
    run_exits = getattr(atexit, "_run_exitfuncs", None)
    for step in (end_threads, run_exits):
        try:
            if step is not None:
                step()
        except BaseException as error:  # noqa: BLE001 (exit functions are the program's)
            code = report(error)
    flushed = flush()
    main = sys.modules.get("__main__")
    space = getattr(main, "__dict__", None)
    if isinstance(space, dict):
        for name in list(space):
            if name != "__builtins__":
                space.pop(name, None)
    _flush_open_files()
    flushed = flush() and flushed
    os._exit(code if flushed else _FLUSH_FAILED)


def _flush_open_files() -> None:
    """What the program's other modules and cycles of objects still hold open for writing."""
    for thing in gc.get_objects():
        if type(thing) is io.TextIOWrapper or type(thing) is io.BufferedWriter:
            try:
                thing.flush()
            except (OSError, ValueError):  # closed, or full
                continue


def _exit_code(leaving: SystemExit) -> int:
    value = leaving.code
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    try:
        print(value, file=sys.stderr)
    except BaseException:  # noqa: BLE001 (a closed or replaced stream)
        return 1
    return 1


def flush() -> bool:
    """Flush the standard streams; False if standard output cannot be."""
    done = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is None or getattr(stream, "closed", False):
            continue
        try:
            stream.flush()
        except BaseException:  # noqa: BLE001 (a broken pipe, or whatever the program put there)
            done = name != "stdout" and done
    return done

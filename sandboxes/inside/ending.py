"""How a forked Python program ends: as an interpreter would, without the time that taking one apart costs.

Threads are joined, exit functions called, the objects of the program's own modules dropped (which flushes the
files that it left open) and the streams flushed. What was there before the program began is left as it is.
"""

from __future__ import annotations

import gc
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

        _flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1


def finish(code: int, ready: set[str]) -> None:
    """End the process.

    Args:
        code: exit code, unless flushing fails.
        ready: names of the modules that were there before the program.
    """
    import atexit
    import threading

    end_threads = getattr(threading, "_shutdown", None)
    run_exits = getattr(atexit, "_run_exitfuncs", None)
    for step in (end_threads, run_exits):
        try:
            if step is not None:
                step()
        except BaseException as error:  # noqa: BLE001 (exit functions are the program's)
            code = report(error)
    flushed = _flush()
    main = sys.modules.get("__main__")
    # The main module goes first, while what its objects need to end (a library's functions) is still there.
    own = [
        module for name, module in list(sys.modules.items()) if name not in ready and _is_own(name, module)
    ]
    for module in [main, *own]:
        space = getattr(module, "__dict__", None)
        if isinstance(space, dict):
            for name in list(space):
                if name != "__builtins__":
                    space.pop(name, None)
    gc.collect()
    flushed = _flush() and flushed
    os._exit(code if flushed else _FLUSH_FAILED)


def _is_own(name: str, module: Any) -> bool:
    """True for a module of the program; those of the standard library and of packages are left as they are."""
    if name.partition(".")[0] in getattr(sys, "stdlib_module_names", ()):
        return False
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and "-packages" + os.sep not in file


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


def _flush() -> bool:
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

"""Runs a Python program in a fork of a ready interpreter, as `python3 FILE`, `-c CODE` or `-m MODULE` would."""

from __future__ import annotations

import _signal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = ("python3", "python")
"""What a warm start answers to; any other program name starts a new process."""

FLAGS = ("-u", "-B", "-I", "-s", "-S", "-E", "-P")
"""Options of the interpreter that a fork serves."""

# fmt: off
PRELOADED = (
    "abc", "array", "ast", "atexit", "base64", "bisect", "cmath", "collections", "collections.abc", "contextlib",
    "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "io", "itertools",
    "json", "keyword", "linecache", "math", "numbers", "operator", "os.path", "pathlib", "pprint", "random", "re",
    "reprlib", "runpy", "signal", "site", "socket", "stat", "statistics", "string", "struct", "sys", "textwrap",
    "threading", "time", "tokenize", "traceback", "types", "typing", "unicodedata", "warnings", "weakref",
)
# fmt: on
"""Modules that are ready before a program starts: those of small programs. Every further one makes each fork slower."""


def can_run(argv: list[str]) -> bool:
    """True for a command line that a fork serves as a new interpreter would."""
    if not argv or argv[0] not in NAMES:
        return False
    rest = argv[1:]
    while rest and rest[0] in FLAGS:
        rest.pop(0)
    return bool(rest) and ((rest[0] in ("-c", "-m") and len(rest) > 1) or not rest[0].startswith("-"))


def preload(further: list[str], paths: list[str]) -> None:
    """Import what programs usually want, and give the interpreter the search path that a usual start gives it."""
    import importlib
    import site

    site.main()
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:  # a distribution may leave parts of the standard library out
            continue
    sys.path[:0] = paths
    for name in further:
        importlib.import_module(name)
    del sys.path[: len(paths)]


def start_afresh() -> None:
    """Give a fork what is its own: random numbers, its folder, and what its thread is known by."""
    found: Any = sys.modules.get("random")
    if found is not None:
        found.seed()
    found = sys.modules.get("numpy")
    if found is not None:
        found.random.seed()
    _signal.signal(
        _signal.SIGINT, _signal.default_int_handler
    )  # the supervisor may ignore it, or hold it back
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
    found = sys.modules.get("multiprocessing.process")
    if found is not None:
        found.ORIGINAL_DIR = os.getcwd()  # it remembers where it was imported
    found = sys.modules.get("threading")
    own_id = found and getattr(found.main_thread(), "_set_native_id", None)
    if own_id is not None:
        own_id()


def become(arguments: list[str]) -> None:
    """Run the program in this process; returns when its last line has run, or raises what it raises."""
    rest = arguments[1:]
    flags = set()
    while rest and rest[0] in FLAGS:
        flags.add(rest.pop(0))
    if "site" not in sys.modules and "-S" not in flags:
        import site

        site.main()
    start_afresh()
    isolated = bool(flags & {"-I", "-P"})
    sys.orig_argv = list(arguments)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and not isolated]
    sys.path[:0] = paths
    if "-u" in flags:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    space = main.__dict__
    space["__builtins__"] = sys.modules["builtins"]
    if rest[0] == "-m":
        sys.argv = [rest[1], *rest[2:]]
        if not isolated:
            sys.path.insert(0, os.getcwd())
        import runpy

        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        return
    if rest[0] == "-c":
        sys.argv = ["-c", *rest[2:]]
        if not isolated:
            sys.path.insert(0, "")
        exec(compile(rest[1], "<string>", "exec", dont_inherit=True), space)
        return
    sys.argv = rest
    if not isolated:
        sys.path.insert(0, os.path.dirname(os.path.abspath(rest[0])))
    name = space["__file__"] = os.path.abspath(rest[0])
    try:
        with open(rest[0], "rb") as file:
            source = file.read()
    except OSError as error:
        os.write(2, (f"python3: can't open file {rest[0]!r}: {error}\n").encode("utf-8", "replace"))
        os._exit(2)
    exec(compile(source, name, "exec", dont_inherit=True), space)

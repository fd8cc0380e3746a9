"""One call of a candidate's function, inside the sandbox; sent there as text, after `values.py`.

Nothing here is secret and nothing is believed: whatever the candidate does to this process, all that leaves it is a
claim "it returned this value". What is done below is for honest candidates that are awkward: it runs with built-ins
of its own, takes what it needs before the candidate is loaded, and ends the process without asking anybody.
"""

from __future__ import annotations

from os import _exit, close, dup, getpid, write
from sys import getrecursionlimit, modules, setprofile, setrecursionlimit, settrace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turngym.sandboxes.grading.values import Unfit, build, encode, parse

_MODULE = "candidate"
_REPLY_FD = 3


def call(request: bytes) -> None:
    """Load the source, call the function, write one reply, and end the process.

    The reply is a tuple: ("value", value), ("raised", "load" or "call", type, message), ("missing", message), or
    ("unfit", message) for a value that cannot be sent.
    """
    source, function, inputs, max_bytes = build(parse(request))
    args, kwargs = build(parse(inputs))
    fd = dup(
        _REPLY_FD
    )  # the numbers that programs like to close, and to find open, are left to the candidate
    close(_REPLY_FD)
    pid = getpid()
    recursion_limit = getrecursionlimit()
    reply = _outcome(source, function, args, kwargs)
    settrace(None)
    setprofile(None)
    setrecursionlimit(recursion_limit)
    if getpid() != pid:  # a fork that the candidate made and did not end
        _exit(0)
    try:
        data = encode(reply, max_bytes)
    except Unfit as error:
        data = encode(("unfit", str(error)))
    while data:
        data = data[write(fd, data) :]
    _exit(0)


def _outcome(source: str, function: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    module = type(modules["sys"])(_MODULE)
    modules[_MODULE] = module
    space = module.__dict__
    space["__builtins__"] = modules["builtins"]
    where = "load"
    try:
        exec(compile(source, "<candidate>", "exec", dont_inherit=True), space)
        owner, _, method = function.rpartition(".")
        if (owner or method) not in space:
            return ("missing", f"there is no {owner or method!r}")
        found = space[owner or method]
        if owner:
            found = getattr(found(), method, None)
        if not callable(found):
            return ("missing", f"{function!r} is no function")
        where = "call"
        return ("value", found(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 (whatever it raises is its result)
        return ("raised", where, *_described(error))


def _described(error: BaseException) -> tuple[str, str]:
    name = type(error).__name__
    try:
        return name[:100] if type(name) is str else "?", f"{error!s}"[:1000]
    except BaseException:  # noqa: BLE001 (its own methods may raise)
        return "?", "an exception that cannot be shown"

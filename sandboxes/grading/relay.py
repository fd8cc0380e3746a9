"""The trusted side of an assert-style test, in a sandbox that never holds model code; sent there after `values.py`.

The test runs in a thread. Its `candidate` hands the arguments out and waits; the host has the real function called
elsewhere and hands back what came of it, as plain values. So a test sees lists and numbers, never objects that
could compare equal to everything, and nothing that the candidate does can reach the test's process.
"""

from __future__ import annotations

import builtins
from queue import SimpleQueue
from threading import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turngym.sandboxes.grading.values import Unfit, build, encode, parse

MESSAGE_FILE = "message"
_SILENT = (StopIteration, StopAsyncIteration)
"""What would end a test's loop over `map(candidate, inputs)` as if all were well."""
_messages: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
_answers: SimpleQueue[bytes] = SimpleQueue()
_raised: list[BaseException] = []
_BROKEN = (NameError, ImportError, SyntaxError)
"""What says that the test itself cannot run; any other exception may come of a wrong value that it was given."""


class CandidateError(Exception):
    """The candidate raised what is none of Python's own exceptions, or must not reach a test as it is."""


def start(setup: str, test: str, function: str) -> None:
    """Begin a test and wait for its first message."""
    Thread(target=_run, args=(setup, test, function), daemon=True).start()
    _next_message()


def proceed(answer: bytes) -> None:
    """Give the candidate's answer to the test and wait for the next message."""
    _answers.put(answer)
    _next_message()


def _next_message() -> None:
    """Write the next message to a file: ("call", inputs), ("passed",), ("failed", text) or ("broken", text)."""
    message = _messages.get()
    with open(MESSAGE_FILE, "wb") as file:
        file.write(encode(message, 1 << 27))


def _candidate(*args: Any, **kwargs: Any) -> Any:
    try:
        inputs = encode((list(args), kwargs), 1 << 26)
    except Unfit as error:
        raise SyntaxError(f"an argument of the candidate cannot be sent: {error}") from None
    _messages.put(("call", inputs))
    answer = build(parse(_answers.get()))
    if answer[0] == "value":
        return answer[1]
    kind = getattr(builtins, answer[1], None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, _SILENT):
        kind = CandidateError
    try:
        raised: Exception = kind(answer[2])
    except TypeError:  # UnicodeDecodeError and its like want more than a message
        raised = CandidateError(f"{answer[1]}: {answer[2]}")
    _raised.append(raised)
    raise raised


def _run(setup: str, test: str, function: str) -> None:
    space: dict[str, Any] = {"__name__": "test"}
    try:
        exec(compile(setup, "<setup>", "exec", dont_inherit=True), space)
        space["candidate"] = space[function] = _candidate
        exec(compile(test, "<test>", "exec", dont_inherit=True), space)
    except BaseException as error:  # noqa: BLE001 (whatever it is becomes the message)
        text = f"{type(error).__name__}: {error}"[:1000]
        is_broken = isinstance(error, _BROKEN) or not isinstance(error, Exception)
        is_own = any(error is other for other in _raised)
        _messages.put(("broken" if is_broken and not is_own else "failed", text))
    else:
        _messages.put(("passed",))

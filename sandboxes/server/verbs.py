"""What each call does with a sandbox: a message in, values for the answer out."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from turngym.sandboxes.errors import SandboxError, SessionLost
from turngym.sandboxes.limits import MIB, Limits
from turngym.sandboxes.protocols import Sandbox, Session
from turngym.sandboxes.server import messages as m
from turngym.sandboxes.server.calls import Answer, failure
from turngym.sandboxes.server.leases import MAX_SESSIONS, Held, Leases
from turngym.sandboxes.server.messages import read_message, result_values
from turngym.sandboxes.server.wire import encode

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One call, ready to run."""

    held: Held
    sandbox: Sandbox
    leases: Leases
    key: str
    max_file_bytes: int

    def limits(self, limits: Limits | None) -> Limits | None:
        """Limits of one program, if they are not above the maxima."""
        if limits is not None:
            self.leases.check(limits)
        return limits

    def room(self, asked: int) -> int:
        """Bytes of the largest file."""
        return min(asked, self.max_file_bytes)

    def session(self, name: str) -> Session:
        """An interpreter that this sandbox has started.

        Raises:
            SessionLost: there is none of that name.
        """
        try:
            return self.held.sessions[name]
        except KeyError:
            raise SessionLost("the sandbox server knows no such interpreter") from None


async def _ping(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    read_message(m.Ping, values)
    await call.sandbox.ping()
    return {}


async def _exec(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.Exec, values)
    if order.reply_bytes is not None and order.reply_bytes > 256 * MIB:
        raise ValueError(f"a reply of {order.reply_bytes} bytes: the most is {256 * MIB}")
    result = await call.sandbox.exec(
        order.argv,
        stdin=order.stdin,
        cwd=order.cwd,
        env=order.env,
        limits=call.limits(order.limits),
        reply_bytes=order.reply_bytes,
    )
    return result_values(result)


async def _read(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.Read, values)
    return {"data": await call.sandbox.read_file(order.path, max_bytes=call.room(order.max_bytes))}


async def _write(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.Write, values)
    await call.sandbox.write_file(order.path, order.data, executable=order.executable)
    return {}


async def _pack(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.Pack, values)
    return {"data": await call.sandbox.pack(order.path, max_bytes=call.room(order.max_bytes))}


async def _unpack(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.Unpack, values)
    await call.sandbox.unpack(order.data, order.path, max_bytes=call.room(order.max_bytes))
    return {}


async def _session_open(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    read_message(m.SessionOpen, values)
    call.held.sessions[call.key] = await call.sandbox.session()
    if len(call.held.sessions) > MAX_SESSIONS:
        del call.held.sessions[next(iter(call.held.sessions))]
    return {"session": call.key}


async def _session_run(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.SessionRun, values)
    code = order.code.decode("utf-8", "surrogateescape")
    return result_values(await call.session(order.session).run(code, limits=call.limits(order.limits)))


async def _session_close(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    order = read_message(m.SessionClose, values)
    await call.session(order.session).close()
    return {}


VERBS: Final[dict[str, Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]]] = {
    "ping": _ping,
    "exec": _exec,
    "read": _read,
    "write": _write,
    "pack": _pack,
    "unpack": _unpack,
    "session_open": _session_open,
    "session_run": _session_run,
    "session_close": _session_close,
}
"""Last part of a call's address → what it does."""


async def perform(verb: str, call: Call, values: dict[str, Any]) -> Answer:
    """Do it; whatever goes wrong is the answer."""
    try:
        return Answer(200, encode(await VERBS[verb](call, values)))
    except (SandboxError, ValueError, TypeError) as error:
        return failure(error)
    except Exception as error:  # noqa: BLE001 (every error is an answer)
        _LOG.exception("%s failed", verb)
        return failure(error, 500)

"""Bodies of requests and answers: one JSON object, and raw bytes beside it.

    body = length of the head (4 bytes, big-endian) | head | the parts, one after the other
    head = {"fields": {name: JSON value}, "parts": [[name, bytes], …]}

Output and files stay what they are instead of growing by a third as text, and reading a body makes nothing but
texts, numbers, lists, dictionaries and bytes. Lone surrogates, which stand for names that are no UTF-8, survive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

MAX_HEAD: Final = 8 << 20
"""Bytes of the largest head."""
CONTENT_TYPE: Final = "application/x-turngym"
"""Media type of these bodies; a browser sends none such to a foreign server unasked."""

KEY_HEADER: Final = "turngym-key"
"""Idempotency key of a call: a call with a key that the server knows gets that call's answer."""
WAIT_HEADER: Final = "turngym-wait"
"""Seconds that the server may take before it says 202: still running, ask again with the same key."""


class WireError(ValueError):
    """Bytes that are no body."""


def encode(values: Mapping[str, Any]) -> bytes:
    """Bytes of named values: bytes go beside the head, everything else into it.

    Raises:
        ValueError: the values beside the bytes are too many, or not finite.
    """
    parts = {name: value for name, value in values.items() if isinstance(value, bytes)}
    head = json.dumps(
        {
            "fields": {name: value for name, value in values.items() if name not in parts},
            "parts": [[name, len(part)] for name, part in parts.items()],
        },
        allow_nan=False,
        separators=(",", ":"),
    ).encode("ascii")
    if len(head) > MAX_HEAD:
        raise ValueError(f"arguments of {len(head)} bytes: the most is {MAX_HEAD}; write them to a file")
    return b"".join((len(head).to_bytes(4, "big"), head, *parts.values()))


def decode(body: bytes) -> dict[str, Any]:
    """The named values of a body.

    Raises:
        WireError: it is none.
    """
    length = int.from_bytes(body[:4], "big")
    if len(body) < 4 or length > MAX_HEAD or 4 + length > len(body):
        raise WireError("the body has no head, or a longer one than allowed")
    try:
        head = json.loads(body[4 : 4 + length], parse_constant=_refuse)
        values: dict[str, Any] = dict(head["fields"])
        sizes = [(name, size) for name, size in head["parts"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError("the body's head is damaged") from error
    at = 4 + length
    for name, size in sizes:
        if not isinstance(name, str) or type(size) is not int or size < 0 or name in values:
            raise WireError("the body's head describes parts that cannot be")
        values[name] = body[at : at + size]
        at += size
    if at != len(body):
        raise WireError("the body is longer or shorter than its head says")
    return values


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")

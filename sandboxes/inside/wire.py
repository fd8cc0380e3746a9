"""Frames between host and supervisor: a length, then one value of integers, bytes, lists and dictionaries.

The values are written as bencode (Cohen, BEP 3): `i7e`, `3:abc`, `l…e`, `d…e`. It is binary-safe, has one form
for each value, needs no import, and reading it can make nothing but those four types.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` itself costs more time than the rest of the start
if TYPE_CHECKING:
    from typing import Any

MAX_FRAME = 640 << 20
"""Bytes of the largest frame."""
MAX_DEPTH = 8
"""How deep values nest."""


class WireError(Exception):
    """Bytes that are no frame."""


def encode(value: Any) -> bytes:
    """Bytes of a value. Text is written as UTF-8; True and False are 1 and 0."""
    parts: list[Any] = []
    _encode(value, parts)
    return b"".join(parts)


def _encode(value: Any, parts: list[Any]) -> None:
    if isinstance(value, int):
        parts.append(b"i%de" % value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        parts += (b"%d:" % len(value), value)
    elif isinstance(value, str):
        _encode(value.encode("utf-8", "surrogateescape"), parts)
    elif isinstance(value, (list, tuple)):
        parts.append(b"l")
        for item in value:
            _encode(item, parts)
        parts.append(b"e")
    elif isinstance(value, dict):
        parts.append(b"d")
        for key in sorted(value):
            _encode(key, parts)
            _encode(value[key], parts)
        parts.append(b"e")
    else:
        raise TypeError(f"a frame holds integers, bytes, text, lists and dictionaries, not {type(value)!r}")


def decode(data: bytes) -> Any:
    """The value of some bytes: text comes back as bytes, the keys of dictionaries as text.

    Raises:
        WireError: they are no value, or hold more than one.
    """
    try:
        value, end = _decode(data, 0, 0)
    except (ValueError, IndexError, AttributeError) as error:  # AttributeError: a key that is no text
        raise WireError("damaged frame") from error
    if end != len(data):
        raise WireError("a frame holds more than one value")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise WireError("a frame nests too deep")
    kind = data[at : at + 1]
    if kind == b"i":
        end = data.index(b"e", at, at + 24)
        return int(data[at + 1 : end]), end + 1
    if kind in (b"l", b"d"):
        at += 1
        items = []
        while data[at : at + 1] != b"e":
            if at >= len(data):
                raise WireError("a frame ends too early")
            item, at = _decode(data, at, depth + 1)
            items.append(item)
        if kind == b"l":
            return items, at + 1
        keys = items[::2]
        if len(items) % 2 or not all(isinstance(key, bytes) for key in keys):
            raise WireError("a dictionary whose keys are no text")
        pairs = zip(keys, items[1::2])  # noqa: B905 (`strict` came with Python 3.10)
        return {key.decode("utf-8"): value for key, value in pairs}, at + 1
    colon = data.index(b":", at, at + 12)
    start = colon + 1
    end = start + int(data[at:colon])
    if end > len(data) or end < start:
        raise WireError("a frame ends too early")
    return data[start:end], end


def pack_frame(value: Any) -> bytes:
    """A value as a frame."""
    body = encode(value)
    return len(body).to_bytes(4, "big") + body


class Channel:
    """Frames over a pair of descriptors (or one socket, given twice)."""

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self.in_fd = in_fd
        self.out_fd = out_fd

    def send(self, value: Any) -> None:
        """Write one frame, whole."""
        view = memoryview(pack_frame(value))
        while view:
            view = view[os.write(self.out_fd, view[: 1 << 20]) :]

    def receive(self) -> Any:
        """Read one frame; None at the end of file."""
        head = self._exactly(4)
        if head is None:
            return None
        length = int.from_bytes(head, "big")
        if length > MAX_FRAME:
            raise WireError(f"a frame of {length} bytes")
        body = self._exactly(length)
        if body is None:
            raise WireError("a frame ends too early")
        return decode(body)

    def _exactly(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = os.read(self.in_fd, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

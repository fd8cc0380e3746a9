"""Plain Python values as tagged bytes, so that a value's type survives the way out of a sandbox.

One value has one tag and one form; reading it makes nothing but tuples of tags and contents, never an object of a
type that the sender named. This file is also sent into sandboxes as text: it needs nothing but the standard library.

    N T F          None, True, False           l t S Z   list, tuple, set, frozenset: a count, then the items
    i  d  c        int, float, complex         m         dict: a count, then keys and values in turn
    s  b  y        str, bytes, bytearray       o         anything else: the name of its type, and equal to nothing
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from struct import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Node = tuple[str, Any]
    """A tag and its content: a number or text, a list of nodes, or a list of pairs of nodes."""
else:
    Node = tuple

MAX_DEPTH = 100
"""How deep values nest."""
HASHABLE = frozenset("NTFidcsbtZo")
"""Tags of what can be a key, if its own items can."""
_DICTS = (dict, defaultdict, OrderedDict, Counter)
"""All read as dict: whoever asked for a dict is served by each of them."""


class Unfit(ValueError):
    """A value that nests too deep or is too large to be written."""


class Malformed(ValueError):
    """Bytes that are not exactly one value."""


def encode(value: Any, max_bytes: int = 1 << 24) -> bytes:
    """Bytes of a value.

    Only the exact built-in types are read, by their own methods: what a subclass overrides is never called.

    Raises:
        Unfit: it nests deeper than `MAX_DEPTH`, or needs more than `max_bytes`.
    """
    parts: list[bytes] = []
    _put(value, parts, MAX_DEPTH, [max_bytes])
    data = b"".join(parts)
    if len(data) > max_bytes:
        raise Unfit(f"the value needs more than {max_bytes} bytes")
    return data


def _put(value: Any, parts: list[bytes], depth: int, room: list[int]) -> None:
    kind = type(value)
    items: Any = None
    if value is None:
        part = b"N"
    elif kind is bool:
        part = b"T" if value else b"F"
    elif kind is int:
        part = b"i%x;" % value
    elif kind is float:
        part = b"d" + pack(">d", value)
    elif kind is complex:
        part = b"c" + pack(">dd", value.real, value.imag)
    elif kind is str:
        part = _blob(b"s", value.encode("utf-8", "surrogatepass"))
    elif kind is bytes:
        part = _blob(b"b", value)
    elif kind is bytearray:
        part = _blob(b"y", bytes(value))
    elif kind is list:
        part, items = b"l%x:", list(value)
    elif kind is tuple:
        part, items = b"t%x:", value
    elif kind is set:
        part, items = b"S%x:", list(value)
    elif kind is frozenset:
        part, items = b"Z%x:", list(value)
    elif any(kind is known for known in _DICTS):  # `in` would ask the type itself whether it is one
        pairs = list(dict.items(value))
        part, items = b"m%x:" % len(pairs), [side for pair in pairs for side in pair]
    else:
        part = _blob(b"o", str(type.__dict__["__name__"].__get__(kind)).encode("utf-8", "replace")[:200])
    if items is not None and not part.startswith(b"m"):
        part = part % len(items)
    parts.append(part)
    room[0] -= len(part)
    if room[0] < 0:
        raise Unfit("the value is too large")
    if items:
        if depth == 0:
            raise Unfit(f"the value nests deeper than {MAX_DEPTH} levels")
        for item in items:
            _put(item, parts, depth - 1, room)


def _blob(tag: bytes, data: bytes) -> bytes:
    return tag + b"%x:" % len(data) + data


def parse(data: bytes) -> Node:
    """The one value that some bytes hold, as nodes. It is safe for bytes that anybody wrote.

    Raises:
        Malformed: they hold no value, more than one, or one that cannot be.
    """
    try:
        node, end = _take(data, 0, MAX_DEPTH)
    except Malformed:
        raise
    except (ValueError, IndexError, OverflowError) as error:
        raise Malformed(f"no value: {type(error).__name__}") from None
    if end != len(data):
        raise Malformed(f"{len(data) - end} bytes follow the value")
    return node


def _take(data: bytes, at: int, depth: int) -> tuple[Node, int]:
    tag = chr(data[at])
    at += 1
    if tag in "NTF":
        return (tag, None), at
    if tag == "i":
        end = data.index(b";", at)
        digits = data[at:end]
        number = int(digits, 16)
        if b"%x" % number != digits:
            raise Malformed("a number in another form than its own")
        return (tag, number), end + 1
    if tag == "d":
        return (tag, unpack(">d", _slice(data, at, 8))[0]), at + 8
    if tag == "c":
        return (tag, complex(*unpack(">dd", _slice(data, at, 16)))), at + 16
    if tag not in "sbyoltSZm":
        raise Malformed("an unknown tag")
    colon = data.index(b":", at, at + 12)
    count = int(data[at:colon], 16)
    if b"%x" % count != data[at:colon] or not 0 <= count <= len(data) - colon:
        raise Malformed("a count that cannot be")
    at = colon + 1
    if tag in "sbyo":
        content = _slice(data, at, count)
        return (tag, content.decode("utf-8", "surrogatepass") if tag in "so" else content), at + count
    if count and not depth:
        raise Malformed(f"values nest deeper than {MAX_DEPTH} levels")
    nodes: list[Node] = []
    for _ in range(2 * count if tag == "m" else count):
        node, at = _take(data, at, depth - 1)
        nodes.append(node)
    keys = nodes[::2] if tag == "m" else nodes if tag in "SZ" else []
    for key in keys:
        if not _is_hashable(key):
            raise Malformed("a key that has no hash")
    return (tag, list(zip(keys, nodes[1::2])) if tag == "m" else nodes), at  # noqa: B905 (same length)


def _slice(data: bytes, at: int, count: int) -> bytes:
    if at + count > len(data):
        raise Malformed("the bytes end too early")
    return data[at : at + count]


def _is_hashable(node: Node) -> bool:
    tag, content = node
    return tag in HASHABLE and (tag != "t" or all(_is_hashable(item) for item in content))


def build(node: Node) -> Any:
    """The Python value of nodes. Not on the host for what a candidate sent: hashing its keys may take for ever.

    Raises:
        Malformed: something in it is of an unknown type.
    """
    tag, content = node
    if tag in "idcsb":
        return content
    if tag in "NTF":
        return {"N": None, "T": True, "F": False}[tag]
    if tag == "y":
        return bytearray(content)
    if tag == "m":
        return {build(key): build(value) for key, value in content}
    if tag == "o":
        raise Malformed(f"a value of type {content}")
    make: Any = {"l": list, "t": tuple, "S": set, "Z": frozenset}[tag]
    return make([build(item) for item in content])


def has_opaque(node: Node) -> bool:
    """True if something in it is of an unknown type."""
    tag, content = node
    if tag == "m":
        return any(has_opaque(side) for pair in content for side in pair)
    return tag == "o" or (tag in "ltSZ" and any(has_opaque(item) for item in content))

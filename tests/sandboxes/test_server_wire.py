from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.sandboxes.server.wire import MAX_HEAD, WireError, decode, encode

values = st.dictionaries(
    st.text(),
    st.one_of(
        st.binary(),
        st.text(st.characters(categories=None, exclude_categories=())),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
        st.lists(st.text()),
    ),
)


def body(head: bytes, parts: bytes = b"") -> bytes:
    return len(head).to_bytes(4, "big") + head + parts


@given(values)
def test_what_goes_in_comes_out(found: dict[str, object]) -> None:
    out = decode(encode(found))
    assert out == found
    assert {name: type(value) for name, value in out.items()} == {n: type(v) for n, v in found.items()}


@given(st.binary())
def test_garbage_is_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data + b"{")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        (MAX_HEAD + 1).to_bytes(4, "big"),
        body(b"[" * 1_000_000),
        body(b'{"fields":{"x":NaN},"parts":[]}'),
        body(b'{"fields":[1],"parts":[]}'),
        body(b'{"fields":{},"parts":{}}', b"x"),
        body(b'{"fields":{},"parts":[["a",-1],["b",2]]}', b"x"),
        body(b'{"fields":{},"parts":[["a",true]]}', b"x"),
        body(b'{"fields":{},"parts":[["a",1]]}'),
        body(b'{"fields":{},"parts":[["a",1],["a",1]]}', b"xy"),
        body(b'{"fields":{"a":1},"parts":[["a",1]]}', b"x"),
        body(b'{"fields":{},"parts":[[["a"],1]]}', b"x"),
        body(b'{"fields":{},"parts":[]}', b"more"),
    ],
)
def test_a_head_that_lies_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


def test_too_many_arguments_are_refused_before_they_are_sent() -> None:
    with pytest.raises(ValueError, match="write them to a file"):
        encode({"argv": ["x" * MAX_HEAD]})


def test_bytes_are_not_made_text() -> None:
    data = bytes(range(256)) * 100
    assert len(encode({"data": data})) < len(data) + 100
    assert data in encode({"data": data})
    assert json.loads(encode({"data": data})[4:].split(data)[0]) == {
        "fields": {},
        "parts": [["data", len(data)]],
    }

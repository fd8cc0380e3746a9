"""The engine's stream, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.sandboxes.docker.attach import Streams
from turngym.sandboxes.inside.wire import WireError


def _piece(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@given(
    pieces=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    cuts=st.lists(st.integers(1, 30), max_size=60),
)
def test_pieces_come_together_wherever_they_are_cut(pieces: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(_piece(stream, part) for stream, part in pieces)
    streams = Streams()
    found = b""
    for cut in [*cuts, len(data)]:
        found += streams.feed(data[:cut])
        data = data[cut:]
    assert found == b"".join(part for stream, part in pieces if stream == 1)
    assert streams.log == b"".join(part for stream, part in pieces if stream == 2)


def test_a_long_log_keeps_its_end() -> None:
    streams = Streams()
    assert streams.feed(_piece(2, b"a" * 5000 + b"the end")) == b""
    assert streams.log.endswith(b"a" + b"the end")
    assert len(streams.log) <= 4000


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 500", bytes([9, 0, 0, 0, 0, 0, 0, 1]), bytes([1, 0, 7, 0, 0, 0, 0, 1])]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="damaged"):
        Streams().feed(data)

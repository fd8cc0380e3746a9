import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.sandboxes.inside.wire import MAX_FRAME, Channel, WireError, decode, encode, pack_frame

leaves = st.integers(-(10**20), 10**20) | st.binary(max_size=40)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=6,
)


@given(values)
def test_what_is_written_is_read_again(value):
    assert decode(encode(value)) == value


def test_the_form_is_bencode():
    assert encode({"b": [1, b"xy"], "a": "é"}) == b"d1:a2:\xc3\xa91:bli1e2:xyee"


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(data):
    try:
        value = decode(data)
    except WireError:
        return
    except UnicodeDecodeError:
        pytest.fail("a key that is no text")
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "data", [b"", b"i1", b"5:abc", b"-1:", b"i1ei2e", b"l" * 50 + b"e" * 50, b"di1e1:ae", b"9" * 40]
)
def test_damaged_values_are_refused(data):
    with pytest.raises(WireError):
        decode(data)


def test_frames_arrive_whole_over_a_pipe_however_large():
    read, write = os.pipe()
    sent = {"data": os.urandom(3 << 20), "n": 7}
    thread = threading.Thread(target=Channel(-1, write).send, args=(sent,))
    thread.start()
    assert Channel(read, -1).receive() == sent
    thread.join()
    os.close(write)
    assert Channel(read, -1).receive() is None
    os.close(read)


def test_a_frame_that_claims_too_much_is_refused_before_it_is_read():
    read, write = os.pipe()
    os.write(write, (MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(WireError, match="a frame of"):
        Channel(read, -1).receive()
    os.write(write, pack_frame(1)[:-1])
    os.close(write)
    with pytest.raises(WireError, match="too early"):
        Channel(read, -1).receive()
    os.close(read)

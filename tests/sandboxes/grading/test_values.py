from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.sandboxes.grading.compare import is_same
from turngym.sandboxes.grading.values import MAX_DEPTH, Malformed, Unfit, build, encode, has_opaque, parse

TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(1 << 500), max_value=1 << 500)
    | st.floats()
    | st.complex_numbers()
    | TEXT
    | st.binary(max_size=20)
)
KEYS = st.recursive(
    SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4
)
VALUES = st.recursive(
    SCALARS | st.binary(max_size=5).map(bytearray) | st.sets(KEYS, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=15,
)


def same(expected: Any, actual: Any) -> bool:
    return is_same(parse(encode(expected)), parse(encode(actual)))


def shape(value: Any) -> Any:
    """A text that tells two values apart if their types or contents differ anywhere."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shape(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(repr(shape(item)) for item in value)
    if isinstance(value, dict):
        return "dict", sorted(repr((shape(key), shape(item))) for key, item in value.items())
    if isinstance(value, complex):
        return "complex", shape(value.real), shape(value.imag)
    if isinstance(value, float):
        return "float", repr(value + 0.0)
    return type(value).__name__, repr(value)


@given(VALUES)
def test_a_value_comes_back_as_it_went(value: Any) -> None:
    node = parse(encode(value))
    assert shape(build(node)) == shape(value)
    assert is_same(node, parse(encode(build(node))))
    assert not has_opaque(node)


@given(VALUES, VALUES)
def test_two_values_are_the_same_if_and_only_if_types_and_contents_are(left: Any, right: Any) -> None:
    assert same(left, right) == (shape(left) == shape(right))


@given(st.binary(max_size=60))
def test_bytes_of_anybody_are_one_value_or_malformed(data: bytes) -> None:
    try:
        node = parse(data)
    except Malformed:
        return
    is_same(node, node)


@given(VALUES, st.data())
def test_a_damaged_value_is_read_as_another_or_not_at_all(value: Any, data: st.DataObject) -> None:
    good = encode(value)
    at = data.draw(st.integers(0, len(good) - 1))
    for bad in (good[:at], good + good, good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]):
        try:
            node = parse(bad)
        except Malformed:
            continue
        assert bad == good or not is_same(parse(good), node) or same_but_for_zeros(good, bad)


def same_but_for_zeros(good: bytes, bad: bytes) -> bool:
    """True where only the sign of a zero, the bits of a NaN, or the order of a set was changed."""
    return shape(build(parse(good))) == shape(build(parse(bad)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"i;",
        b"i1",
        b"i01;",
        b"i1_0;",
        b"i 1;",
        b"i+1;",
        b"i-0;",
        b"iF;",
        b"d1234567",
        b"s5:abc",
        b"s-1:",
        b"s1:\xff",
        b"s 1:a",
        b"l1:",
        b"lffffffff:N",
        b"l2:N",
        b"NN",
        b"S1:l0:",
        b"m1:l0:N",
        b"S1:t1:l0:",
        b"m1:N",
        b"q",
        b"\x80\x04N.",
        b'{"score": 1.0}',
        b"l1:" * 100_000 + b"N",
        b"t1:" * 500 + b"N",
    ],
)
def test_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)


def test_depth_and_size_have_an_end() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert shape(build(parse(encode(deep)))) == shape(deep)
    with pytest.raises(Unfit, match="deeper"):
        encode([deep])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Unfit):
        encode(loop)
    wide: Any = 1
    for _ in range(60):
        wide = [wide, wide]
    with pytest.raises(Unfit, match="large"):
        encode(wide, 10_000)
    with pytest.raises(Unfit, match="large"):
        encode("x" * 100, 50)


def test_big_integers_need_no_decimal_digits() -> None:
    assert same(10**6000, 10**6000)
    assert not same(10**6000, 10**6000 + 1)


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Shouting(str):
    pass


class Filled(dict[str, int]):
    def items(self) -> Any:
        raise AssertionError("a subclass's method was called")


@pytest.mark.parametrize(
    "value", [Liar(1), Shouting("a"), Filled(a=1), object(), len, range(3), int, iter([])]
)
def test_other_types_are_opaque_and_equal_nothing(value: Any) -> None:
    node = parse(encode(value))
    assert node[0] == "o"
    assert has_opaque(parse(encode([1, {"k": (value,)}])))
    assert not is_same(node, node)
    assert not same([value], [value])
    with pytest.raises(Malformed):
        build(node)


def test_dicts_of_the_standard_library_are_dicts() -> None:
    for kind in (Counter({"a": 1}), OrderedDict(a=1), defaultdict(int, a=1)):
        assert same({"a": 1}, kind)


def test_colliding_hashes_do_not_stop_the_host() -> None:
    modulus = (1 << 61) - 1
    expected = {number * modulus for number in range(400)}
    data = b"S%x:" % 20_000 + b"".join(b"i%x;" % (number * modulus) for number in range(20_000))
    began = time.monotonic()
    assert not is_same(parse(encode(expected)), parse(data))
    pairs = b"m%x:" % 20_000 + b"".join(b"i%x;N" % (number * modulus) for number in range(20_000))
    assert not is_same(parse(pairs), parse(data))
    assert is_same(parse(pairs), parse(pairs))
    assert time.monotonic() - began < 10


def test_repeated_keys_are_not_a_set() -> None:
    assert not is_same(parse(encode({1, 2})), parse(b"S2:i1;i1;"))
    assert not is_same(parse(encode({1: 0, 2: 0})), parse(b"m2:i1;i0;i1;i0;"))
    assert not is_same(parse(encode({1: 0, 2: 0})), parse(b"m3:i1;i0;i2;i0;i1;i0;"))
    assert not is_same(parse(encode({1: 0})), parse(b"m2:i1;i9;i1;i0;"))


def test_nan_equals_nan_and_nothing_else() -> None:
    nan = math.nan
    assert same(nan, nan)
    assert same({nan: [nan]}, {math.nan: [math.nan]})
    assert not same(nan, 0.0)
    assert not same(0.0, nan)
    assert not same({nan: 1}, {0.0: 1})

"""Messages as bytes: the same message back, and nothing but messages."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedcover import wire
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message
from fedcover.wire import decode, encode

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
SMALL = encode(Message("counts", {"a": np.arange(3.0), "b": np.arange(2)}, {"n": 3, "x": 0.5}))

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(2**63), 2**63 - 1)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda t: npst.arrays(t, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
messages = st.builds(
    Message,
    names,
    st.dictionaries(names, arrays, max_size=3),
    st.dictionaries(names, integers | st.floats(), max_size=3),
)


def same(a, b):
    """The same kind, names, types, shapes and bits."""
    assert a.kind == b.kind
    assert dict(a.arrays).keys() == dict(b.arrays).keys()
    for name, array in a.arrays.items():
        other = b.arrays[name]
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        assert array.tobytes() == other.tobytes()
    assert dict(a.numbers).keys() == dict(b.numbers).keys()
    for name, number in a.numbers.items():
        other = b.numbers[name]
        assert type(number) is type(other)
        assert number == other or (math.isnan(number) and math.isnan(other))


@given(messages)
def test_round_trip(message):
    again = decode(encode(message))
    same(message, again)
    assert encode(again) == encode(message)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_and_byte_order(dtype, order):
    ends = np.array(
        [0, 1, np.iinfo(dtype).max if dtype[0] in "iu" else np.inf], dtype=order + dtype
    )
    again = decode(encode(Message("m", {"a": ends}))).arrays["a"]
    assert again.dtype == np.dtype(dtype)
    assert again.dtype.isnative
    assert again.tolist() == ends.tolist()
    again[0] = 1  # its own memory, aligned and free to change


def test_memory_layout_and_order_of_names_do_not_matter():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(4)
    one = encode(Message("m", {"a": a, "b": b}, {"x": 1, "y": 2}))
    assert one == encode(Message("m", {"b": b, "a": np.asfortranarray(a)}, {"y": 2, "x": 1}))
    assert one == encode(Message("m", {"b": np.repeat(b, 2)[::2], "a": a}, {"y": 2, "x": 1}))


def test_different_content_has_different_bytes():
    base = Message("m", {"a": np.zeros(4)}, {"x": 1})
    others = [
        Message("n", {"a": np.zeros(4)}, {"x": 1}),
        Message("m", {"b": np.zeros(4)}, {"x": 1}),
        Message("m", {"a": np.zeros((2, 2))}, {"x": 1}),
        Message("m", {"a": np.zeros(4, dtype=np.int64)}, {"x": 1}),
        Message("m", {"a": -np.zeros(4)}, {"x": 1}),
        Message("m", {"a": np.zeros(4)}, {"x": 1.0}),
        Message("m", {"a": np.zeros(4)}),
    ]
    assert len({encode(m) for m in [base, *others]}) == 8


def test_numpy_numbers_become_python_numbers():
    numbers = decode(
        encode(Message("m", numbers={"i": np.int32(-7), "f": np.float32(0.5)}))
    ).numbers
    assert numbers == {"i": -7, "f": 0.5}
    assert [type(v) for v in numbers.values()] == [float, int]


@pytest.mark.parametrize(
    "array",
    [
        np.array([True]), np.array(["x"]), np.array([b"x"]), np.array([None]), np.array([1j]),
        np.array([1], dtype="M8[s]"), np.zeros(2, dtype=np.longdouble), np.zeros(2, "i4,f4"),
        np.ma.masked_array([1.0], mask=[True]), [1.0], 1.0, np.float64(1), np.zeros((1,) * 9),
        np.broadcast_to(np.zeros(1), (wire.MOST_BYTES,)), np.empty((0, wire.MOST_BYTES)),
    ],
)  # fmt: skip
def test_refuses_other_arrays(array):
    with pytest.raises(FedcoverError, match="array 'a'"):
        encode(Message("m", {"a": array}))


@pytest.mark.parametrize(
    "number", [True, None, "1", 2**63, -(2**63) - 1, 1j, np.uint64(2**63), np.bool_(True)]
)
def test_refuses_other_numbers(number):
    with pytest.raises(FedcoverError, match="number 'x'"):
        encode(Message("m", numbers={"x": number}))


@pytest.mark.parametrize("name", ["\ud800", "x" * 65536, 7, None])
def test_refuses_other_names(name):
    for message in (Message(name), Message("m", {name: np.zeros(1)}), Message("m", {}, {name: 1})):
        with pytest.raises(FedcoverError, match="a name is"):
            encode(message)


def test_refuses_what_is_no_message():
    with pytest.raises(FedcoverError, match="type dict"):
        encode({"kind": "counts"})
    with pytest.raises(FedcoverError, match="type bytearray"):
        decode(bytearray(SMALL))


def test_refuses_every_truncation_and_every_continuation():
    for length in range(len(SMALL)):
        with pytest.raises(FedcoverError, match="not a message"):
            decode(SMALL[:length])
    for more in (b"\0", SMALL):
        with pytest.raises(FedcoverError, match="follow its end"):
            decode(SMALL + more)


def refused_or_canonical(data):
    """One form only: what is accepted is what it would be written as."""
    try:
        message = decode(data)
    except FedcoverError:
        return True
    return encode(message) == data


@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_message(position, change):
    data = bytearray(SMALL)
    data[position] ^= change
    assert refused_or_canonical(bytes(data))


@given(st.binary(max_size=200))
@example(b"FCM\x01")
def test_noise_is_refused_or_canonical(data):
    assert refused_or_canonical(data)
    assert refused_or_canonical(b"FCM\x01" + data)


def declared(shape, code=b"<f8"):
    """A message that announces an array of this shape and brings no data."""
    head = b"FCM\x01" + struct.pack("<H", 1) + b"m" + struct.pack("<HHH", 0, 1, 1) + b"a"
    return head + code + struct.pack(f"<B{len(shape)}Q", len(shape), *shape)


@pytest.mark.parametrize(
    "shape", [(2**63,), (2**64 - 1, 2**64 - 1), (2**27,), (0, 2**63), (2**32, 2**32, 0), (1,) * 9]
)
def test_huge_shapes_are_refused_before_there_is_room_for_them(shape):
    import tracemalloc

    tracemalloc.start()
    try:
        with pytest.raises(FedcoverError, match="not a message"):
            decode(declared(shape))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_refuses_other_types_and_versions():
    for code in (b"|O8", b"<c8", b"|b1", b">f8", b"\xff\xff\xff"):
        with pytest.raises(FedcoverError, match="unknown type"):
            decode(declared((0,), code))
    with pytest.raises(FedcoverError, match="version 2, not 1"):
        decode(b"FCM\x02" + SMALL[4:])
    with pytest.raises(FedcoverError, match="does not start"):
        decode(b"\x80\x05" + SMALL)


def test_repeated_or_unordered_names_are_refused():
    one = b"FCM\x01\x01\x00m" + struct.pack("<H", 2)
    for first, second in ((b"x", b"x"), (b"y", b"x")):
        numbers = b"".join(b"\x01\x00" + n + b"i" + bytes(8) for n in (first, second))
        with pytest.raises(FedcoverError, match="out of order"):
            decode(one + numbers + b"\0\0")

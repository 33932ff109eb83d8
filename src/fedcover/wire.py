"""Messages as bytes, for storing and for sending: one canonical form, no pickle, strict to read.

All integers are little-endian and unsigned unless said otherwise; a name is its length (2 bytes)
and UTF-8 text::

    "FCM" 0x01                                     three letters and the version of the format
    name                                           the message's kind
    count (2), then per number: name, "i" and a signed or "f" and a floating-point value (8)
    count (2), then per array:  name, type (3, such as "<f8"), dimensions (1), shape (8 each), data

Names come in ascending order and data in C order, so equal messages have equal bytes and a digest
of the bytes is a digest of the content. A reader believes no length before the bytes are there.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError


@dataclass(frozen=True)
class Message:
    """A query or a reply: a kind, named arrays, named numbers. Nothing else ever travels."""

    kind: str
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Payload in bytes: the arrays, and 8 for each number."""
        return sum(a.nbytes for a in self.arrays.values()) + 8 * len(self.numbers)


Round = Mapping[str, Message]
"""A message to or from each site, by its name."""

MAGIC, VERSION = b"FCM", 1

MOST_BYTES = 1 << 29
"""Longest message, 512 MiB: below what SQLite stores in one field."""

MOST_DIMENSIONS = 8

TYPES = {f"<{kind}{size}": np.dtype(f"<{kind}{size}") for kind in "iu" for size in (2, 4, 8)}
TYPES |= {f"|{kind}1": np.dtype(f"|{kind}1") for kind in "iu"}
TYPES |= {f"<f{size}": np.dtype(f"<f{size}") for size in (2, 4, 8)}


def encode(message: Message) -> bytes:
    """The bytes of a message; refuses what `decode` would not give back as it was.

    Parameters
    ----------
    message
        Arrays of integers or floats of at most 64 bits, and numbers that are Python or numpy
        integers or floats.
    """
    if not isinstance(message, Message):
        raise FedcoverError(
            f"the message is of type {type(message).__name__}",
            allowed="a Message",
            fix="Give arrays and numbers as Message(kind, arrays, numbers)",
        )
    parts = [MAGIC, bytes([VERSION]), _name(message.kind)]
    for values, put in ((message.numbers, _number), (message.arrays, _array)):
        if len(values) > 0xFFFF:
            raise _unsendable("the message has too many parts", "at most 65535 of each sort")
        parts.append(struct.pack("<H", len(values)))
        for name, text in _in_order(values):
            parts += [text, *put(name, values[name])]
    if sum(len(part) for part in parts) > MOST_BYTES:
        raise _unsendable("the message is too long", f"at most {MOST_BYTES} bytes")
    return b"".join(parts)


def decode(data: bytes) -> Message:
    """The message of `encode`; refuses anything else, before making room for it.

    Parameters
    ----------
    data
        All bytes of one message and nothing after it.
    """
    if not isinstance(data, bytes):
        raise _unreadable(f"it is of type {type(data).__name__}")
    if len(data) > MOST_BYTES:
        raise _unreadable(f"it has {len(data)} bytes, more than {MOST_BYTES}")
    reader = _Reader(data)
    if reader.take(len(MAGIC)) != MAGIC:
        raise _unreadable("it does not start as a message does")
    version = reader.take(1)[0]
    if version != VERSION:
        raise _unreadable(f"it has format version {version}, not {VERSION}")
    kind = reader.name()
    numbers = reader.table(reader.number)
    arrays = reader.table(reader.array)
    if reader.left:
        raise _unreadable(f"{reader.left} bytes follow its end")
    return Message(kind, arrays, numbers)


class _Reader:
    """Walks over the bytes; every step checks that they are there."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> memoryview:
        if count > self.left:
            raise _unreadable(f"it ends after {len(self._data)} bytes, {count - self.left} short")
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def number_of(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def name(self) -> str:
        try:
            return str(self.take(self.number_of("<H")), "utf-8")
        except UnicodeDecodeError:
            raise _unreadable("a name in it is not UTF-8 text") from None

    def table(self, value: Callable[[], Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        last: bytes | None = None
        for _ in range(self.number_of("<H")):
            name = self.name()
            if last is not None and name.encode() <= last:
                raise _unreadable(f"the name {name!r} is repeated or out of order")
            last = name.encode()
            found[name] = value()
        return found

    def number(self) -> int | float:
        tag = bytes(self.take(1))
        if tag not in (b"i", b"f"):
            raise _unreadable(f"a number in it has the unknown type {tag!r}")
        return self.number_of("<q" if tag == b"i" else "<d")

    def array(self) -> NDArray[Any]:
        code = bytes(self.take(3)).decode("latin-1")
        if code not in TYPES:
            raise _unreadable(f"an array in it has the unknown type {code!r}")
        dimensions = self.number_of("<B")
        if dimensions > MOST_DIMENSIONS:
            raise _unreadable(f"an array in it has {dimensions} dimensions")
        shape = tuple(self.number_of("<Q") for _ in range(dimensions))
        dtype = TYPES[code]
        if _extent(shape, dtype) > MOST_BYTES:
            raise _unreadable(f"an array in it has the shape {shape}")
        data = self.take(math.prod(shape) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _extent(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of the array with its empty dimensions taken as 1: numpy needs that to be small too."""
    return math.prod(max(1, d) for d in shape) * dtype.itemsize


def _in_order(values: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    named = [(name, _name(name)) for name in values]
    return sorted(named, key=lambda pair: pair[1][2:])


def _name(text: Any) -> bytes:
    try:
        data = text.encode("utf-8") if isinstance(text, str) else None
    except UnicodeEncodeError:
        data = None
    if data is None or len(data) > 0xFFFF:
        raise _unsendable(f"a name is {text!r:.80}", "UTF-8 text of at most 65535 bytes")
    return struct.pack("<H", len(data)) + data


def _number(name: str, value: Any) -> list[bytes]:
    if isinstance(value, (float, np.float16, np.float32)):
        return [b"f", struct.pack("<d", value)]
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not -(2**63) <= value < 2**63:
        raise _unsendable(
            f"number {name!r} is {value!r:.80} ({type(value).__name__})",
            "a float, or a whole number of 64 bits with sign",
        )
    return [b"i", struct.pack("<q", value)]


def _array(name: str, value: Any) -> list[bytes]:
    if type(value) is not np.ndarray:  # a mask or a unit of a subclass would be lost
        raise _unsendable(f"array {name!r} is of type {type(value).__name__}", "a numpy array")
    dtype = value.dtype.newbyteorder("<")
    if dtype.str not in TYPES or value.ndim > MOST_DIMENSIONS or dtype != TYPES[dtype.str]:
        raise _unsendable(
            f"array {name!r} has type {value.dtype} and {value.ndim} dimensions",
            f"integers or floats of at most 64 bits in at most {MOST_DIMENSIONS} dimensions",
        )
    if _extent(value.shape, dtype) > MOST_BYTES:
        raise _unsendable(f"array {name!r} has shape {value.shape}", f"at most {MOST_BYTES} bytes")
    head = struct.pack(f"<B{value.ndim}Q", value.ndim, *value.shape)
    return [dtype.str.encode(), head, value.astype(dtype, copy=False).tobytes()]


def _unsendable(given: str, allowed: str) -> FedcoverError:
    return FedcoverError(given, allowed=allowed, fix="Change what the method puts into messages")


def _unreadable(why: str) -> FedcoverError:
    return FedcoverError(
        f"these bytes are not a message: {why}",
        allowed="the bytes of one message, whole and unchanged",
        fix="Check that both sides run the same version of fedcover and that nothing was cut off",
    )

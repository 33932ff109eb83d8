"""Facts, arrays, messages and bytes, changed as somebody would who knows the form."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedcover.wire import Message

WORDS = (
    "", " ", "\x00", "\x1b[31m", "\n", "\u202e", "\ud800", "$\\frac{$", "<script>", "[bold]",
    "=1+1", "=HYPERLINK(\"x\")", "record", "site", "server", "secure-sum", "replace",
    "add-remove", "uniform", "GaussianRelease", "ExactRelease", "a", "0", "1e999",
    "nan", "../x", "x" * 5000,
)  # fmt: skip

NUMBERS = (
    0, 1, -1, 2, 3, 255, 256, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    10**400, 0.0, -0.0, 0.5, 1.0, 1e-5, 5e-324, 1e-300, 1e-160, 1e160, 1e200, 1e308, -1e308, 0.1,
    1 - 1e-16, 1.0000001,
)  # fmt: skip

KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


def value(rng: random.Random, depth: int = 0) -> Any:
    """Something that JSON can say."""
    kind = rng.randrange(9)
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind < 5:
        return rng.choice(WORDS)
    if kind == 5:
        return rng.choice([None, True, False])
    if kind == 6:
        return rng.choice([[], {}, [[]], [[], []], {"type": "GaussianRelease"}, {"": None}])
    if depth > 2:
        return rng.randrange(-5, 50)
    if kind == 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(WORDS): value(rng, depth + 1) for _ in range(rng.randrange(3))}


def facts(rng: random.Random, given: Any) -> Any:
    """The same with one to three places changed."""
    out = copy.deepcopy(given)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(out))
        if not places:
            return value(rng)
        box, key = rng.choice(places)
        how = rng.randrange(10)
        if how < 5:
            box[key] = value(rng)
        elif how < 7:
            box[key] = _near(rng, box[key])
        elif how == 7:
            del box[key]
        elif how == 8:
            other, there = rng.choice(places)
            if there in other if isinstance(other, dict) else there < len(other):
                box[key] = copy.deepcopy(other[there])
        elif isinstance(box, list):
            box[key:key] = [copy.deepcopy(box[key])] * rng.choice((1, 2, 300))
        else:
            box[rng.choice(WORDS)] = value(rng)
    return out


def _places(thing: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(thing, dict):
        for key in thing:
            yield thing, key
            yield from _places(thing[key])
    elif isinstance(thing, list):
        some = range(len(thing)) if len(thing) < 20 else (0, 1, len(thing) // 2, len(thing) - 1)
        for key in some:
            yield thing, key
            yield from _places(thing[key])


def _near(rng: random.Random, old: Any) -> Any:
    """A value of the same type, or nearly."""
    if isinstance(old, bool) or old is None:
        return rng.choice([True, False, None, 0, 1])
    if isinstance(old, (int, float)):
        return rng.choice(
            [rng.choice(NUMBERS), old + 1, old - 1, -old, old * 2, old / 2**9, f"{old:g}", [old]]
            if abs(old) < 1e300
            else [rng.choice(NUMBERS), -old, [old]]
        )
    if isinstance(old, str):
        return rng.choice([rng.choice(WORDS), old + rng.choice(WORDS), old.upper(), old[1:]])
    if isinstance(old, list):
        return rng.choice([old[:-1], old * 2, old[::-1], [old], [], dict.fromkeys(map(str, old))])
    if isinstance(old, dict):
        return rng.choice([list(map(list, old.items())), {}, [old], None])
    return value(rng)


def array(rng: random.Random, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same with other numbers, another type or another shape."""
    out = np.array(given)
    how = rng.randrange(8)
    if how < 3 and out.size:
        flat = out.reshape(-1)
        for _ in range(rng.choice((1, 1, 5, flat.size))):
            flat[rng.randrange(flat.size)] = _entry(rng, out.dtype)
        return out
    if how == 3:
        kind = np.dtype("<" + rng.choice(KINDS))
        with np.errstate(all="ignore"):
            return out.astype(kind) if out.dtype.kind in "iuf" else np.zeros(out.shape, kind)
    if how == 4:
        return out.reshape(rng.choice([(-1,), (1, *out.shape), (*out.shape, 1)]))
    if how == 5:
        return out[: rng.randrange(len(out) + 1)] if out.ndim and len(out) else out
    if how == 6 and out.ndim:
        return np.concatenate([out] * rng.choice((2, 2, 7)))
    shape = tuple(rng.choice((0, 1, 2, 3, 5, 60)) for _ in range(rng.randrange(4)))
    return np.full(shape, _entry(rng, out.dtype), out.dtype)


def _entry(rng: random.Random, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return rng.choice([0.0, -0.0, 1.0, 0.5, -1.0, np.nan, np.inf, -np.inf, most, -most, 5e-324])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return rng.choice([0, 1, 2, 5, ends.min, ends.max, ends.max - 1, ends.max // 2])
    return np.zeros((), dtype)[()]


def message(rng: random.Random, given: Message) -> Message:
    """The same with arrays and numbers changed, left out, added or called otherwise."""
    kind, arrays, numbers = given.kind, dict(given.arrays), dict(given.numbers)
    for _ in range(rng.choice((1, 1, 2, 4))):
        how = rng.randrange(8)
        if how < 4 and arrays:
            key = rng.choice(sorted(arrays))
            arrays[key] = array(rng, arrays[key])
        elif how < 6 and numbers:
            key = rng.choice(sorted(numbers))
            numbers[key] = number(rng)
        elif how == 6:
            table = rng.choice([arrays, numbers])
            if table:
                gone = table.pop(rng.choice(sorted(table)))
                if rng.random() < 0.5:
                    table[rng.choice(["x", "version", "counts", "card:s0"])] = gone
        elif rng.random() < 0.1:
            kind = rng.choice(["", "x", "secure-sum/keys", "sketch", "fit", "steps", "scores"])
    return Message(kind, arrays, numbers)


def number(rng: random.Random) -> int | float:
    """A number that a message can hold."""
    found = rng.choice([*NUMBERS, np.nan, np.inf, -np.inf])
    return found if isinstance(found, float) or -(2**63) <= found < 2**63 else float("1e30")


def data(rng: random.Random, given: bytes) -> bytes:
    """The same bytes with some changed, cut out, put in or repeated."""
    out = bytearray(given)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out) + 1)
        how = rng.randrange(5)
        if how == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del out[at : at + rng.choice((1, 4, 100, 10**6))]
        elif how == 2:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 8, 40)))
        elif how == 3:
            some = rng.choice([b"\xff" * 8, b"\x00" * 8, b"\x7f\xff", b"[" * 9000, b"9" * 5000])
            out[at : at + rng.choice((0, len(some)))] = some
        else:
            out[at:at] = out[at : at + rng.choice((1, 16, 200))]
    return bytes(out)

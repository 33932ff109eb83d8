"""What a server asks, read and checked at the site: by shapes and public numbers, never by data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.checks import MOST_RECORDS
from fedcover.errors import FedcoverError
from fedcover.methods.base import Float64
from fedcover.site import Site
from fedcover.wire import Message

LONGEST = 1 << 26
"""Most numbers that a query may have a site make: half a gigabyte."""

LARGEST = 1e100
"""Largest float in a query: sums and products of a few of them are still numbers."""


def read_whole(query: Message, key: str, least: int, most: int) -> int:
    """A whole number of a query."""
    value = query.numbers.get(key)
    if not isinstance(value, int) or not least <= value <= most:
        raise strange(query, key, f"a whole number from {least} to {most}")
    return value


def read_real(query: Message, key: str, low: float, high: float) -> float:
    """A number of a query in [low, high]."""
    value = query.numbers.get(key)
    if not isinstance(value, (int, float)) or not low <= value <= high:  # NaN is in no interval
        raise strange(query, key, f"a number from {low:g} to {high:g}")
    return float(value)


def read_floats(query: Message, key: str, *shape: int | None) -> Float64:
    """An array of finite floats of this shape; None stands for any length."""
    array = _shaped(query, key, np.float64, shape)
    if not (np.abs(array) <= LARGEST).all():
        raise strange(query, key, f"finite numbers up to {LARGEST:g}")
    return array


def read_wholes(
    query: Message, key: str, *shape: int | None, least: int, most: int
) -> NDArray[np.int64]:
    """An array of whole numbers from `least` to `most` of this shape."""
    array = _shaped(query, key, np.int64, shape)
    if not ((array >= least) & (array <= most)).all():
        raise strange(query, key, f"whole numbers from {least} to {most}")
    return array


def used_records(query: Message, site: Site) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and labels of the records that a query is about, sorted by position."""
    size = read_whole(query, "size", 0, MOST_RECORDS)
    return site.sorted_records(size, read_whole(query, "seed", 0, 1 << 62))


def bounded(query: Message, key: str, *lengths: int) -> None:
    """Refuses what would have the site make too large an array."""
    if math.prod(lengths) > LONGEST:
        raise strange(query, key, f"at most {LONGEST} numbers to make")


def strange(query: Message, key: str, allowed: str) -> FedcoverError:
    """The error for a query with something in it that no server of this version asks."""
    return FedcoverError(
        f"a query {query.kind!r:.40} with a {key!r} outside what was agreed",
        allowed=allowed,
        fix="Server and site run different versions of fedcover, or the server is hostile",
    )


def _shaped(
    query: Message, key: str, kind: type[Any], shape: tuple[int | None, ...]
) -> NDArray[Any]:
    array = query.arrays.get(key, np.empty(0))
    good = array.dtype == kind and array.ndim == len(shape)
    if not good or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        lengths = " × ".join("any" if n is None else str(n) for n in shape)
        raise strange(query, key, f"numbers of type {np.dtype(kind).name}, {lengths}")
    return array

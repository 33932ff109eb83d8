"""Kinds, versions and bytes of the messages; what is not as it must be is refused.

A message is a `Message` of kind "secure-sum/STAGE" with the number "version". Bytes travel as
arrays of uint8, one for each site as "PREFIX:site", so everything can be encoded by `wire`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.protocols.message import Message

VERSION = 1
"""Of the protocol and of a site's state: goes up with any change to what is sent or signed."""

STAGES = ("keys", "shares", "masked", "agree", "unmask")


def make(stage: str, arrays: Mapping[str, NDArray[Any]], **numbers: int) -> Message:
    """A message of a stage."""
    return Message(f"secure-sum/{stage}", arrays, {"version": VERSION, **numbers})


def stage_of(message: Message) -> str:
    """The stage of a message that is of this version of the protocol."""
    version = message.numbers.get("version")
    if type(version) is not int or version != VERSION:
        said = f"version {version}" if type(version) is int else "no version number"
        raise FedcoverError(
            f"a message of a secure sum with {said}",
            allowed=f"version {VERSION}",
            fix="Install the same version of fedcover at the server and at all sites",
        )
    stage = message.kind.removeprefix("secure-sum/")
    if stage not in STAGES or message.kind == stage:
        raise refused("a message that is of no stage of a secure sum", f"stages {STAGES}")
    return stage


def to_array(data: bytes) -> NDArray[np.uint8]:
    """Bytes as an array."""
    return np.frombuffer(data, dtype=np.uint8)


def blob(message: Message, name: str, length: int | None = None) -> bytes:
    """The bytes of an array, of exactly this length where one is given."""
    array = message.arrays.get(name)
    good = type(array) is np.ndarray and array.dtype == np.uint8 and array.ndim == 1
    if array is None or not good or length not in (None, len(array)):
        wanted = "bytes" if length is None else f"{length} bytes"
        raise refused(f"{name!r} is missing in a message, or is no such thing", wanted)
    return array.tobytes()


def table(prefix: str, values: Mapping[str, bytes]) -> dict[str, NDArray[np.uint8]]:
    """Bytes for each site, as arrays of a message."""
    return {f"{prefix}:{name}": to_array(value) for name, value in values.items()}


def read_table(message: Message, prefix: str, length: int | None = None) -> dict[str, bytes]:
    """Bytes by site, from the arrays of a message."""
    start = prefix + ":"
    keys = [key for key in message.arrays if key.startswith(start)]
    return {key.removeprefix(start): blob(message, key, length) for key in keys}


def names_to_array(names: tuple[str, ...]) -> NDArray[np.uint8]:
    """Names, one on each line."""
    return to_array("\n".join(names).encode())


def text(message: Message, key: str) -> str:
    """UTF-8 text that travels as bytes."""
    try:
        return blob(message, key).decode()
    except UnicodeDecodeError:
        raise refused(f"{key!r} in a message is not text", "UTF-8 text") from None


def read_names(message: Message, key: str) -> tuple[str, ...]:
    """The names of `names_to_array`, not checked any further."""
    return tuple(text(message, key).split("\n"))


def refused(
    given: str,
    allowed: str,
    fix: str = "Nothing was revealed; find out who sent it before going on",
) -> FedcoverError:
    """The error for what an honest other side does not send."""
    return FedcoverError(given, allowed=allowed, fix=fix)

"""Archives of arrays (.npz) whose headers and lengths lie, and such as unpack to far too much."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SHAPES = (
    (2**40,), (2**62,), (2**63,), (2**64,), (-1,), (2**31, 2**31), (2**32, 2**32), (0, 2**62), (),
    (0,), (1,), (10**6, 10**6), (2**28,), (3, -3), (1.5,), (True,),
)  # fmt: skip

TYPES = ("|i1", "<i8", ">i4", "|O", "<f8", "<c16", "<M8[s]", "<U9", "|S3", "|V8", "<U99999999",
         "|b1", "<f16", "[('a', '<i8')]", "x" * 3000, "|u1")  # fmt: skip


def member(array: Array) -> bytes:
    """The bytes of an honest .npy file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=(1, 0))
    return out.getvalue()


def lying(rng: random.Random, array: Array) -> bytes:
    """A .npy file whose header says something else than what follows."""
    shape: Any = rng.choice(SHAPES) if rng.random() < 0.6 else array.shape
    kind = rng.choice(TYPES) if rng.random() < 0.5 else array.dtype.str
    text = f"{{'descr': {kind!r}, 'fortran_order': {rng.random() < 0.2}, 'shape': {shape!r}, }}"
    odd = rng.randrange(12)
    if odd == 0:
        text = "(" * 150 + text
    elif odd == 1:
        text = text[: rng.randrange(len(text))]
    elif odd == 2:
        text = "{" + text
    head = text.encode("latin-1", "replace") + b"\n"
    version = rng.choice([b"\x01\x00"] * 6 + [b"\x02\x00", b"\x03\x00", b"\x09\x00", b"\xff\xff"])
    size = len(head).to_bytes(2 if version < b"\x02" else 4, "little")
    return b"\x93NUMPY" + version + size + head + array.tobytes()[: rng.choice((10**9, 10**9, 7))]


@dataclass(frozen=True)
class Zeros:
    """A .npy file of zeros, of so many bytes: a thousand times smaller once it is packed."""

    kind: str
    shape: tuple[int, ...]
    nbytes: int


def archive(members: Mapping[str, bytes | Zeros], packed: bool = True) -> bytes:
    """An .npz file of these .npy files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                if isinstance(content, bytes):
                    part.write(content)
                    continue
                part.write(head(content.kind, content.shape))
                for left in range(content.nbytes, 0, -(1 << 24)):
                    part.write(bytes(min(left, 1 << 24)))
    return out.getvalue()


def head(kind: str, shape: tuple[int, ...]) -> bytes:
    """The beginning of a .npy file, whatever follows it."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def damaged_archive(rng: random.Random, arrays: Mapping[str, Array]) -> bytes:
    """An archive in which one array lies, is missing, stands twice, or is none."""
    members = {name: member(array) for name, array in arrays.items()}
    name = rng.choice(sorted(members))
    how = rng.randrange(5)
    if how < 3:
        members[name] = lying(rng, arrays[name])
    elif how == 3:
        del members[name]
    else:
        members[name] = rng.randbytes(rng.choice((0, 5, 200)))
    return archive(members, rng.random() < 0.7)

"""Archives of arrays (.npz): shapes before memory.

An archive says how large its arrays are, twice, and both may be lies. So before room is made for an
array, the shape in its header must be what the bytes of its member amount to, the member no larger
than its packed bytes can become, and those no more than the file has.
"""

from __future__ import annotations

import io
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

LEAST_ROOM = 1 << 28
"""Bytes that the arrays of any file may have, 256 MiB; more only of a large file."""

MOST_TIMES = 200
"""How many times larger than its file everything in it may be: model outputs seldom reach ten."""

DEFLATED_MOST = 1040
"""How many times smaller deflate can make its input."""

MOST_MEMBERS = 1000

MAGIC = b"\x93NUMPY"


class BrokenArchive(ValueError):
    """Something that is no archive of arrays, or says what cannot be."""


@dataclass(frozen=True)
class Member:
    """An array as its header says it is, found to fit the bytes."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """An open archive; arrays are read one by one.

    Parameters
    ----------
    source
        The file, or its bytes.
    """

    def __init__(self, source: Path | bytes) -> None:
        stream = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        try:
            self.length = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            if stream.read(len(MAGIC)) == MAGIC:
                raise BrokenArchive("a single array, not an archive of named ones")
            self._zip = zipfile.ZipFile(stream)
            self._stream = stream
            members = self._zip.infolist()
            if len(members) > MOST_MEMBERS:
                raise BrokenArchive(f"{len(members)} members")
            self._infos = {i.filename.removesuffix(".npy"): i for i in members}
        except BrokenArchive:
            stream.close()
            raise
        except Exception as error:  # whatever a zip file can be broken in
            stream.close()
            raise _broken(error) from error

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._stream.close()

    @property
    def names(self) -> list[str]:
        """Names of what is in it, in order."""
        return list(self._infos)

    @property
    def room(self) -> int:
        """Bytes that all arrays of this file may have together."""
        return max(LEAST_ROOM, MOST_TIMES * self.length)

    def member(self, name: str) -> Member:
        """What the header of an array says, if the file has bytes for it."""
        try:
            info = self._infos[name]
            self._plausible(info)
            with self._zip.open(info) as file:
                version = npy.read_magic(file)
                if version not in ((1, 0), (2, 0)):
                    raise BrokenArchive(f"{name} has format version {version}")
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, fortran, dtype = read(file)
                found = Member(info, shape, dtype, fortran, file.tell())
            if any(type(n) is not int or n < 0 for n in shape):
                raise BrokenArchive(f"{name} has the shape {shape}")
            if not dtype.hasobject and found.start + found.nbytes != info.file_size:
                raise BrokenArchive(f"{name} says it has {found.nbytes} bytes, and has not")
            return found
        except BrokenArchive:
            raise
        except Exception as error:  # numpy's reader of headers raises what Python's parser does
            raise _broken(error) from error

    def read(self, member: Member) -> NDArray[Any]:
        """The array of a header; no Python objects."""
        if member.dtype.hasobject or not member.dtype.itemsize:
            raise BrokenArchive(f"an array of type {member.dtype}")
        try:
            with self._zip.open(member.info) as file:
                file.read(member.start)
                data = file.read(member.nbytes)
                file.read(1)  # the end, where the checksum is compared
            flat = np.frombuffer(data, member.dtype, math.prod(member.shape))
            if member.fortran:
                return flat.reshape(member.shape[::-1]).T
            return flat.reshape(member.shape)
        except Exception as error:
            raise _broken(error) from error

    def _plausible(self, info: zipfile.ZipInfo) -> None:
        """Refuses a member whose sizes cannot be true, before a byte of it is unpacked."""
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(f"{info.filename} is packed in a way that numpy never uses")
        if info.compress_size > self.length:
            raise BrokenArchive(f"{info.filename} is larger than the file")
        if info.file_size > DEFLATED_MOST * info.compress_size + 64:
            raise BrokenArchive(f"{info.filename} would unpack to more than it can")


def _broken(error: Exception) -> BrokenArchive:
    return BrokenArchive(f"{type(error).__name__}: {str(error)[:200]}")

"""Files read whole, no more of them than is allowed, and nothing but files."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class TooLong(OSError):
    """A file that is longer than any of its kind, or no plain file."""


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a plain file of at most so many; an OSError for anything else.

    A pipe would keep the reader waiting, and a device has no end.
    """
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(21, "Is a directory")
        if not stat.S_ISREG(found.st_mode):
            raise TooLong(0, "not a plain file")
        # No more than there is: room is made for all that is asked for.
        data = file.read(min(found.st_size, most) + 1)
    if len(data) > most:
        raise TooLong(0, f"longer than {most} bytes")
    return data

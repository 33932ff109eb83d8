"""Output files: checked before the work that fills them, and written whole and durably or not."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

from fedcover.errors import FileError


def output_file(path: str | Path) -> Path:
    """A path to which a file can be written: its folder exists, and it is no folder itself."""
    try:
        path = Path(path)
        if path.is_dir():
            raise _no_output(path, "is a folder", "Add a file name")
        if not path.parent.is_dir():
            made = "is not a folder" if path.parent.exists() else "does not exist"
            raise _no_output(path, f"cannot be written: {path.parent} {made}", "Make the folder")
    except OSError as error:  # a path too long, or a folder that cannot be entered
        raise unwritable(path, error) from None
    except TypeError:
        raise _no_output(repr(path), "is not a path", "Give the path of a file") from None
    return path


def output_folder(path: str | Path) -> Path:
    """A path that is a folder, or can become one."""
    path = Path(path)
    try:
        above = next(p for p in (path, *path.absolute().parents) if p.exists())
        good = above.is_dir()
    except OSError as error:
        raise unwritable(path, error) from None
    if not good:
        raise FileError(
            f"{above} is a file",
            allowed="a folder, or a name that is free",
            fix="Choose another folder",
        )
    return path


@contextmanager
def replacing(path: str | Path) -> Iterator[TextIO]:
    """A text file to write, which takes the place of `path` when it is complete."""
    with replacing_bytes(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        yield text
        text.detach()


@contextmanager
def replacing_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when it is complete."""
    path = output_file(path)
    try:
        special = path.exists() and not path.is_file()  # a pipe or a device cannot be replaced
        target = path if special else path.resolve()  # what a link points to, and not the link
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise unwritable(path, error) from None
    try:
        with nullcontext(target) if special else part_of(target) as part, part.open("wb") as file:
            yield file
    except OSError as error:
        raise unwritable(path, error) from None


def write(path: str | Path, content: bytes | str) -> None:
    """Writes a file, text as UTF-8, which takes the place of `path` when it is complete."""
    with replacing_bytes(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def part_of(path: Path, mode: int = 0o666, *, new: bool = False) -> Iterator[Path]:
    """A file beside `path` that takes its name at the end, complete and on the disk, or vanishes.

    Every file that must be whole is written through here. Errors are the operating system's own.

    Parameters
    ----------
    path
        The name it gets; no link.
    mode
        Permissions, before the umask: 0o600 for secrets, from the first byte.
    new
        Refuse to take the place of a file that is there, with FileExistsError.
    """
    # A name of its own: of two processes at once, each writes one whole file.
    part = path.with_name(f"{path.name[:50]}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        yield part
        _to_disk(part, os.O_RDWR)
        if new:
            os.link(part, path)  # unlike renaming, never replaces a file
        else:
            os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    try:
        _to_disk(path.parent, os.O_RDONLY)  # else a power cut could bring the old file back
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL):  # what systems say that cannot do it
            raise


def _to_disk(path: Path, how: int) -> None:
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unwritable(path: str | Path, error: Exception) -> FileError:
    """The error for a file that the operating system does not let us write."""
    why = getattr(error, "strerror", None) or str(error)
    return _no_output(path, f"cannot be written ({why})", "Choose another place")


def _no_output(path: str | Path, what: str, fix: str) -> FileError:
    return FileError(f"{path} {what}", allowed="a file name in a folder that exists", fix=fix)

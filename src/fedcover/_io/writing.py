"""Output files, written whole or not at all, and checked before the work that fills them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        path = path if special else path.resolve()  # what a link points to, and not the link
        part = path if special else path.with_name(path.name + ".part")
        file = part.open("wb")
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise unwritable(path, error) from None
    try:
        with file:
            yield file
        if not special:
            part.replace(path)
    except BaseException as error:
        if not special:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritable(path, error) from None
        raise


def unwritable(path: str | Path, error: Exception) -> FileError:
    """The error for a file that the operating system does not let us write."""
    why = getattr(error, "strerror", None) or str(error)
    return _no_output(path, f"cannot be written ({why})", "Choose another place")


def _no_output(path: str | Path, what: str, fix: str) -> FileError:
    return FileError(f"{path} {what}", allowed="a file name in a folder that exists", fix=fix)

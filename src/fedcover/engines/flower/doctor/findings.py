"""What was looked at, whether it is good, and what to do if not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fedcover.errors import FedcoverError, FileError

if TYPE_CHECKING:
    from fedcover.identity import PublicIdentity

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table.

    Attributes
    ----------
    what
        What was looked at.
    good
        Whether it may stay.
    says
        What was found; never a secret or a record.
    fix
        What to do, where it is not good.
    """

    what: str
    good: bool
    says: str
    fix: str = ""


@dataclass
class Findings:
    """Findings as they come; a failed look does not end the examination."""

    lines: list[Finding] = field(default_factory=list)

    def look(self, what: str, work: Callable[[], tuple[T, str]]) -> T | None:
        """What some work gives, with a line about it; None where it fails."""
        try:
            value, says = work()
        except FedcoverError as error:
            self.lines.append(
                Finding(what, False, f"{error.given}. Allowed: {error.allowed}", error.fix)
            )
        except OSError as error:
            why = error.strerror or type(error).__name__
            self.bad(what, f"{error.filename} cannot be used ({why})", "Check path and permissions")
        else:
            self.lines.append(Finding(what, True, says))
            return value
        return None

    def good(self, what: str, says: str) -> None:
        self.lines.append(Finding(what, True, says))

    def bad(self, what: str, says: str, fix: str) -> None:
        self.lines.append(Finding(what, False, says, fix))


def shown_key(key: PublicIdentity) -> str:
    """A key's fingerprint, in two parts so that it fits into the table."""
    from fedcover.identity import fingerprint

    return fingerprint(key).replace(":", ": ")


def readable(path: Path) -> Path:
    """A file that this process may read."""
    if not path.is_file() or not os.access(path, os.R_OK):
        why = "cannot be read" if path.exists() else "does not exist"
        raise FileError(
            f"{path} {why}",
            allowed="a file that this process may read",
            fix="Correct the path (it is taken from where the program is started), or permissions",
        )
    return path


def private(path: Path) -> Path:
    """A file or folder that nobody but its owner may read."""
    if path.stat().st_mode & 0o077:
        mode = "700" if path.is_dir() else "600"
        raise FileError(
            f"{path} can be read by other users",
            allowed="its owner alone",
            fix=f"chmod {mode} {path}; if others may have read it, make it anew",
        )
    return path


def writable_folder(path: Path) -> str:
    """That a folder can be written to, or made; in words."""
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise FileError(
            f"{path} cannot be written to",
            allowed="a folder that this process may write to",
            fix="Choose another folder, or change its permissions",
        )
    return f"{path} can be written to" if path.exists() else f"{path} will be made"

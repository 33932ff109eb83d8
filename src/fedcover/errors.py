"""Errors and warnings, all of one form: what was given, what is allowed, what to do.

FedcoverError (a ValueError)     bad input: arrays, options, sites
├── FileError                    a file that is missing, corrupt, foreign or too new
└── BudgetError                  a privacy budget does not allow it
FedcoverWarning (a UserWarning)  the result is valid but less useful than it could be
"""

from __future__ import annotations

import sys


class FedcoverError(ValueError):
    """Something given to fedcover cannot be used.

    Parameters
    ----------
    given
        What was found, with the value and where it stands.
    allowed
        What would have been accepted.
    fix
        What the user can do about it.
    """

    def __init__(self, given: str, *, allowed: str, fix: str) -> None:
        self.given, self.allowed, self.fix = given, allowed, fix
        super().__init__(f"{given}. Allowed: {allowed}. {fix}.")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.given, self.allowed, self.fix))


class FileError(FedcoverError):
    """A file cannot be read as what it is said to be."""


class BudgetError(FedcoverError):
    """A privacy budget does not allow what was asked; nothing was computed or charged."""


class FedcoverWarning(UserWarning):
    """The result holds, but something about it deserves attention."""


def needs_posix(what: str, where: object) -> FedcoverError:
    """The error for the few parts that lock files as Linux and macOS do."""
    return FedcoverError(
        f"{what} locks its files, which this system ({sys.platform}) cannot do: {where}",
        allowed="Linux, macOS, or the Windows Subsystem for Linux",
        fix="Run this site there; calibrating and predicting in one process work on every system",
    )


def _rebuild(kind: type[FedcoverError], given: str, allowed: str, fix: str) -> FedcoverError:
    return kind(given, allowed=allowed, fix=fix)

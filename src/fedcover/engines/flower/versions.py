"""Which Flower this fedcover was tested with, and what is installed here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

FLOWER = "1.41.0"
"""As in the extra `flower` of this package; Flower's interfaces move between releases."""


def installed(package: str) -> str | None:
    """The version of a package, or None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None

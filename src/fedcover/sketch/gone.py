"""Options of version 0.1 that are gone, and what to use now."""

from __future__ import annotations

from fedcover.errors import FedcoverError

GONE = {
    "mode": "Use certify=0.95 in calibrate or personalise: it promises the coverage with a stated "
    "probability",
    "public_counts": "Use Sketch(most_per_site=...) with unit='site', or unit='record'",
    "warp": "Leave it out: the standard bins resolve both ends and the middle of every score",
    "design": "Leave it out: noise is factorised, which suits every number of bins",
}
"""Options of version 0.1, and what takes their place."""


def refuse_gone(**given: object) -> None:
    """One clear error for an option that there is no more."""
    for name, value in given.items():
        if value is not None:
            raise FedcoverError(
                f"{name}={value!r}",
                allowed=f"no option {name}; it went with version 0.1",
                fix=GONE[name],
            )

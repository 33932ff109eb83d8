"""Versions: the same fedcover and the tested Flower at the server and at every site."""

from __future__ import annotations

import platform

import fedcover
from fedcover.engines.flower.doctor.findings import Findings
from fedcover.engines.flower.versions import FLOWER, installed


def examine(found: Findings) -> None:
    """Looks at Python, fedcover, Flower and what secure sums need."""
    found.good("Python", platform.python_version())
    found.good("fedcover", f"{fedcover.__version__}; must be the same everywhere")
    flower = installed("flwr")
    if flower == FLOWER:
        found.good("Flower", f"{flower}, the version this fedcover was tested with")
    else:
        says = "is not installed" if flower is None else f"is {flower}, tested was {FLOWER}"
        found.bad("Flower", says, f"pip install 'fedcover[flower]', or 'flwr=={FLOWER}'")
    lacking = [name for name in ("cryptography", "pycryptodome") if installed(name) is None]
    if lacking:
        found.bad("secure sums", f"{lacking[0]} is missing", "pip install 'fedcover[secure]'")
    else:
        found.good("secure sums", "cryptography and pycryptodome are there")

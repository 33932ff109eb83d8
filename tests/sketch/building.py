"""What the tests of the sketch share: sites with known score laws, queries, and noise taken out."""

from __future__ import annotations

import numpy as np
from fedcover.sketch.design import DESIGNS

import fedcover as fc
from fedcover.protocols.message import Message

SKETCH = fc.methods.Sketch
LEVELS = tuple(np.linspace(0.1, 0.9, 9).round(1).tolist())
VIEWS, RELATIONS = ("server", "secure-sum"), ("replace", "add-remove")

QUERY = {
    "table": 1, "labels": 1, "cut": 0.75, "design": 0, "scale": 64, "table_sigma": 300.0,
    "label_sigma": 300.0, "most": 0,
}  # fmt: skip
ARRAYS = {"cuts": np.array([0.25, 0.5, 0.75]), "rows": np.arange(4)}


def budget(epsilon: float = 2.0, **more) -> fc.Privacy:
    return fc.Privacy(epsilon, **{"delta": 1e-5, "view": "secure-sum", **more})


def powers(
    rng: np.random.Generator,
    sizes,
    exponents,
    mixes=None,
    name: str = "s",
) -> list[fc.Site]:
    """Sites whose scores of label y have the distribution function F_y(q) = q^(exponents[y])."""
    k = np.asarray(exponents, dtype=float)
    even = np.full(len(k), 1 / len(k))
    sites = []
    for i, n in enumerate(sizes):
        y = rng.choice(len(k), size=n, p=even if mixes is None else mixes[i])
        sites.append(fc.Site(f"{name}{i}", rng.random(n) ** (1 / k[y]), y, n_classes=len(k)))
    return sites


def covered(cal: fc.Calibration, shares, exponents) -> np.ndarray:
    """Exact coverage at each level of a target with these label shares and score laws q^k."""
    return cal.thresholds ** np.asarray(exponents, dtype=float) @ np.asarray(shares, dtype=float)


def query(arrays=None, **numbers) -> Message:
    """A query for four labels as a server may send it, with changes."""
    return Message("sketch", {**ARRAYS, **(arrays or {})}, {**QUERY, **numbers})


def design_number(name: str) -> int:
    return DESIGNS.index(name)


def zeros(sigma, shape):
    """In place of noise."""
    return np.zeros(shape, dtype=np.int64)


def total_error(cal: fc.Calibration) -> float:
    """The deviation of the coverage that a calibration states."""
    return float(cal.guarantee.partition("±")[2].split()[0])

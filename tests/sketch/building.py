"""What the tests of the sketch share: sites with known score laws, queries, and noise taken out."""

from __future__ import annotations

import numpy as np

import fedcover as fc
from fedcover.methods.sketch.table import Layout, SketchTable, checked_cuts
from fedcover.position import positions
from fedcover.wire import Message

SKETCH = fc.methods.Sketch
LEVELS = tuple(np.linspace(0.1, 0.9, 9).round(1).tolist())
VIEWS, RELATIONS = ("server", "secure-sum"), ("replace", "add-remove")
FOUR = (0.0, 0.25, 0.5, 0.75, 1.0)

QUERY = {
    "factored": 1, "scale": 64, "table_sigma": 300.0, "label_sigma": 300.0, "confusion": 0,
    "confusion_sigma": 0.0, "most": 0,
}  # fmt: skip
ARRAYS = {"cuts": positions([0.25, 0.5, 0.75]), "rows": np.arange(4)}


def budget(epsilon: float = 2.0, **more) -> fc.Privacy:
    return fc.Privacy(epsilon, **{"delta": 1e-5, "view": "secure-sum", **more})


def even(bins: int) -> tuple[float, ...]:
    """Edges of so many bins of equal width."""
    return tuple((np.arange(bins + 1) / bins).tolist())


def powers(
    rng: np.random.Generator,
    sizes,
    exponents,
    mixes=None,
    name: str = "s",
) -> list[fc.Site]:
    """Sites whose scores of label y have the distribution function F_y(q) = q^(exponents[y])."""
    k = np.asarray(exponents, dtype=float)
    alike = np.full(len(k), 1 / len(k))
    sites = []
    for i, n in enumerate(sizes):
        y = rng.choice(len(k), size=n, p=alike if mixes is None else mixes[i])
        sites.append(fc.Site(f"{name}{i}", rng.random(n) ** (1 / k[y]), y, n_classes=len(k)))
    return sites


def covered(cal: fc.Calibration, shares, exponents) -> np.ndarray:
    """Exact coverage at each level of a target with these label shares and score laws q^k."""
    return cal.thresholds ** np.asarray(exponents, dtype=float) @ np.asarray(shares, dtype=float)


def a_query(arrays=None, **numbers) -> Message:
    """A query for four labels as a server may send it, with changes."""
    return Message("sketch", {**ARRAYS, **(arrays or {})}, {**QUERY, **numbers})


def zeros(sigma, shape, source):
    """In place of noise."""
    return np.zeros(shape, dtype=np.int64)


def table_of(counts, noise=None, edges=None) -> SketchTable:
    """A table of (rows, B) counts from the top bin, plain or factorised with noise (sd, sd)."""
    from fedcover.methods.sketch import factor

    counts = np.asarray(counts, dtype=np.int64)
    layout = Layout(len(counts), checked_cuts(edges or even(counts.shape[1])), noise is not None)
    return SketchTable(
        layout=layout,
        table=counts if noise is None else factor.measured(counts),
        labels=counts.sum(axis=1),
        scale=1,
        table_noise=() if noise is None else (noise[0] ** 2,),
        label_noise=() if noise is None else (noise[1] ** 2,),
        records=int(counts.sum()),
        sites=("a",),
    )

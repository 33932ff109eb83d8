"""The one-round sketch: how collecting grows with the number of sites, and how large a sketch is.

Sites of 50 records and 100 labels, ε = 2, secure sum, all in one process; each number of sites in a
fresh interpreter with one thread, after a small collection that fills caches. CPU time is that of
`fedcover.collect`, the noise of every site included. Extra memory is the peak less what the
interpreter held before, the sites themselves among it.

Claimed: CPU time linear in the sites. A slope of 1 is linear; fixed costs pull it down.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table

import fedcover as fc
from benchmarks import federation, measure

SITES = (100, 300, 1000, 3000, 10_000)
RECORDS, LABELS = 50, 100
METHOD = fc.methods.Sketch()
BUDGET = fc.Privacy(epsilon=2, delta=1e-5, view="secure-sum")
LEVELS = (0.05, 0.1, 0.2)


def tables(quick: bool) -> Iterator[Table]:
    yield _growth(SITES[:3] if quick else SITES, 1 if quick else 3)
    yield _sizes()


def _growth(sizes: tuple[int, ...], repeats: int) -> Table:
    runs: dict[int, list[dict[str, float]]] = {n: [] for n in sizes}
    for _ in range(repeats):
        for n in sizes:
            found = measure.fresh("-W", "ignore", "-m", "benchmarks.sketch", str(n))
            runs[n].append(found)
    best = {n: {k: min(run[k] for run in r) for k in r[0]} for n, r in runs.items()}
    made = measure.table(
        f"Collecting a sketch of {LABELS} labels × 1840 bins, ε = 2, secure sum",
        "sites",
        "collect",
        "per site",
        "extra memory",
        "per site",
        "personalise",
        caption=f"Smallest of {repeats} fresh interpreters. “slope” fits all sizes, “at the end” "
        "the two largest; claimed for the CPU time: 1. `personalise` is for three levels.",
    )
    for n, found in best.items():
        made.add_row(
            f"{n:,}",
            measure.seconds(found["collect"]),
            f"{found['collect'] / n * 1e6:.0f} µs",
            f"{found['memory'] / 1e6:,.1f} MB",
            f"{found['memory'] / n / 1e3:.1f} kB",
            measure.seconds(found["personalise"]),
        )
    for name, part in (("slope", best), ("at the end", dict(list(best.items())[-2:]))):
        values = {k: _slope({n: f[k] for n, f in part.items()}) for k in ("collect", "memory")}
        made.add_row(name, f"{values['collect']:.2f}", "", f"{values['memory']:.2f}", "", "")
    return made


def _slope(values: dict[int, float]) -> float:
    """Least-squares slope of the logarithms."""
    return float(np.polyfit(np.log(list(values)), np.log(list(values.values())), 1)[0])


def _sizes() -> Table:
    """A sketch of 1000 labels from 40,000 records, as a file and as messages."""
    sites = federation.sites([4000] * 10, 1000)
    cases: dict[str, tuple[fc.methods.Sketch, fc.Privacy | None]] = {
        "no privacy": (fc.methods.Sketch(), None),
        "ε = 2": (fc.methods.Sketch(), BUDGET),
        "ε = 2, 300 bins": (fc.methods.Sketch(bins=300), BUDGET),
    }
    made = measure.table(
        "A sketch of 1,000 labels, 40,000 records at 10 sites",
        "",
        "table",
        "file",
        "sent by a site",
        "received",
        "rounds",
        "collect",
        "personalise",
        caption="Payload bytes per site.",
    )
    for name, (method, privacy) in cases.items():
        took, sketch = measure.cpu(lambda m=method, p=privacy: fc.collect(sites, m, p))
        with tempfile.TemporaryDirectory() as folder:
            sketch.save(Path(folder) / "sketch.npz")
            size = (Path(folder) / "sketch.npz").stat().st_size
        rows, columns = sketch.table.table.shape
        made.add_row(
            name,
            f"{rows:,} × {columns:,}",
            f"{size:,}",
            f"{sketch.cost.bytes_up:,}",
            f"{sketch.cost.bytes_down:,}",
            str(sketch.cost.rounds),
            measure.seconds(took),
            measure.seconds(_personalise(sketch, 1000)),
        )
    return made


def _personalise(sketch: fc.SketchResult, n_classes: int, targets: int = 9) -> float:
    """CPU time of one target, the median of several."""
    rng, times = np.random.default_rng(1), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.FedcoverWarning)
        for _ in range(targets):
            counts = rng.multinomial(500, rng.dirichlet(np.full(n_classes, 0.3)))
            times.append(measure.cpu(lambda c=counts: sketch.personalise(c, LEVELS))[0])
    return median(times)


def main(n_sites: int) -> None:
    """One collection of so many sites; prints what it took as JSON."""
    fc.collect(federation.sites([RECORDS] * 10, LABELS, seed=1), METHOD, BUDGET)
    sites = federation.sites([RECORDS] * n_sites, LABELS)
    before = measure.memory()
    took, sketch = measure.cpu(lambda: fc.collect(sites, METHOD, BUDGET))
    found: dict[str, Any] = {
        "collect": took,
        "memory": max(1, measure.peak_memory() - before),
        "personalise": _personalise(sketch, LABELS),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))

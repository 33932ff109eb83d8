"""APS sets from saved probabilities, three levels: fedcover against MAPIE, CPU time and memory.

Calibrate on 40,000 × 1,000 float32 probabilities, predict on as many more.

Fair because both read the same arrays and make the same kind of sets (randomised APS, one threshold
per level; the table shows their coverage and sizes); because MAPIE's model is a stub that hands
over the saved array at no cost; and because each runs alone in a fresh interpreter with one thread.
Imports are not timed. Extra memory is the peak less what the interpreter held before, inputs
included.

CPU time is split: "system" is what the kernel spends on handing out memory. It belongs to the cost
of a method that takes gigabytes, but varies with the machine and its state far more than "user".
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks import measure

ALPHAS = (0.05, 0.1, 0.2)
N_CLASSES = 1000
SHOWN = ("coverage", "mean size")


def tables(quick: bool) -> Iterator[Table]:
    n, repeats = (5_000, 1) if quick else (40_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        write_outputs(Path(folder), n)
        results: dict[str, list[dict[str, Any]]] = {"MAPIE": [], "fedcover": []}
        for _ in range(repeats):
            for name, runs in results.items():
                runs.append(measure.fresh("-W", "ignore", "-m", "benchmarks.aps", name, folder))
    both = {
        name: {key: median(run[key] for run in runs) for key in runs[0] if key not in SHOWN}
        for name, runs in results.items()
    }
    peer, ours = both["MAPIE"], both["fedcover"]

    made = measure.table(
        f"APS, {n:,} × {N_CLASSES:,} float32 probabilities, three levels",
        "",
        "MAPIE",
        "fedcover",
        "MAPIE / fedcover",
        "required",
        caption=f"Each in a fresh interpreter; median of {repeats}.",
    )
    for step, need in (
        ("calibrate", ""),
        ("predict", ""),
        ("user", ""),
        ("system", ""),
        ("in all", "≥ 10×"),
    ):
        made.add_row(
            f"CPU time, {step}",
            *(measure.seconds(found[step]) for found in (peer, ours)),
            f"{peer[step] / ours[step]:.1f}×" if ours[step] else "",
            need,
        )
    sizes = (f"{found['extra'] / 1e6:,.0f} MB" for found in (peer, ours))
    made.add_row("extra memory", *sizes, f"{peer['extra'] / ours['extra']:.0f}×", "≥ 20×")
    for what in SHOWN:
        for a, alpha in enumerate(ALPHAS):
            values = [median(run[what][a] for run in runs) for runs in results.values()]
            texts = [f"{v:.3f}" if what == "coverage" else f"{v:.1f}" for v in values]
            made.add_row(f"{what}, α = {alpha}", *texts)
    yield made


def write_outputs(folder: Path, n: int) -> None:
    """Softmax outputs of a model that is right about its own doubt: labels are drawn from them."""
    rng = np.random.default_rng(0)
    for part in ("calibration", "test"):
        probs = np.empty((n, N_CLASSES), dtype=np.float32)
        labels = np.empty(n, dtype=np.int64)
        for k in range(n):
            row = np.exp(2.5 * rng.standard_normal(N_CLASSES, dtype=np.float32))
            probs[k] = row / row.sum()
            total = np.cumsum(probs[k], dtype=np.float64)
            labels[k] = np.searchsorted(total, rng.random() * total[-1])
        np.save(folder / f"{part}_probs.npy", probs)
        np.save(folder / f"{part}_labels.npy", labels)


class Saved:
    """A fitted classifier, as MAPIE wants it, whose outputs are already there.

    The records are told apart by their only feature: 0 for calibration, 1 for test.
    """

    def __init__(self, calibration: np.ndarray, test: np.ndarray) -> None:
        self.outputs = (calibration, test)
        self.classes_ = np.arange(calibration.shape[1])
        self.n_features_in_ = 1

    def fit(self, X: np.ndarray, y: np.ndarray) -> Saved:
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.outputs[int(X[0, 0])]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)


def mapie(probs: np.ndarray, labels: np.ndarray, test: np.ndarray) -> Iterator[Any]:
    """Calibrate, then predict; imports come before the clock starts."""
    from mapie.classification import SplitConformalClassifier

    yield
    model = SplitConformalClassifier(
        Saved(probs, test),
        confidence_level=[1 - a for a in ALPHAS],
        conformity_score="aps",
        prefit=True,
        random_state=0,
    )
    model.conformalize(np.zeros((len(probs), 1)), labels)
    yield
    randomised = {"include_last_label": "randomized"}
    _, sets = model.predict_set(np.ones((len(test), 1)), conformity_score_params=randomised)
    yield np.moveaxis(sets, 2, 0)


def fedcover(probs: np.ndarray, labels: np.ndarray, test: np.ndarray) -> Iterator[Any]:
    """The same with fedcover: one site that calibrates alone."""
    import fedcover as fc

    yield
    site = fc.Site.from_probabilities("here", probs, labels, seed=0)
    calibration = fc.calibrate([site], ALPHAS, fc.methods.Local())["here"]
    yield
    yield calibration.predict_set(test, seed=0).mask


def main(name: str, folder: Path) -> None:
    probs, labels, test, truth = (
        np.load(folder / f"{part}_{what}.npy")
        for part in ("calibration", "test")
        for what in ("probs", "labels")
    )
    steps = {"MAPIE": mapie, "fedcover": fedcover}[name](probs, labels, test)
    next(steps)
    before, (user, system) = measure.memory(), measure.cpu_split()
    calibrate, _ = measure.cpu(lambda: next(steps))
    predict, sets = measure.cpu(lambda: next(steps))
    extra, (user_after, system_after) = measure.peak_memory() - before, measure.cpu_split()
    result = {
        "calibrate": calibrate,
        "predict": predict,
        "in all": calibrate + predict,
        "user": user_after - user,
        "system": system_after - system,
        "extra": extra,
        "coverage": [float(s[np.arange(len(truth)), truth].mean()) for s in sets],
        "mean size": [float(s.sum(axis=1).mean()) for s in sets],
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

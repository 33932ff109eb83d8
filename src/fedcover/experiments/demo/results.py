"""The demo's results: every method on many random splits of the federation."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks, methods
from fedcover.api import calibrate
from fedcover.calibration import Calibration
from fedcover.engines import InProcess
from fedcover.errors import FedcoverWarning
from fedcover.experiments.demo import data
from fedcover.experiments.records import Results
from fedcover.experiments.study import Row
from fedcover.methods.base import Method
from fedcover.privacy.randomness import SeededBytes
from fedcover.privacy.statement import Privacy
from fedcover.report.estimate import Estimate, over_repetitions
from fedcover.scores import APS
from fedcover.site import Site

Float64 = NDArray[np.float64]

LOCAL, GLOBAL, ORACLE, ESTIMATED = "Local", "Global", "Oracle weights", "Estimated weights"
OURS, PUBLISHED = "DP-FedCP", "DP-FedCP as published"
SKETCH, PRIVATE, CERTIFIED = "Sketch", "Private sketch", "Certified sketch"

DELTA = 1e-5
"""δ of the private sketch."""

CONFIDENCE = 0.95
"""Probability with which the certified sketch covers 1-α or more."""

SIZES = tuple(f"labels_{k}" for k in range(len(data.LABEL_NAMES) + 1))
"""Columns with the number of sets of 0, 1, 2, … labels."""


@dataclass(frozen=True)
class DemoResults:
    """What the repetitions gave.

    Attributes
    ----------
    federation, alpha, seed
        What was run.
    methods
        By name, in the order of the second axis of the arrays.
    coverage, size
        (repetitions, methods, sites) coverage and mean set size on the test records.
    size_counts
        (methods, sites, classes + 1) how many sets had 0, 1, 2, … labels, in all.
    bytes_up, bytes_down, rounds
        (methods,) mean over sites and repetitions.
    calibrations
        Of the last repetition, by method and site.
    split
        The records of the last repetition.
    global_threshold
        Mean threshold of the pooled scores.
    apart
        Largest difference of a threshold of DP-FedCP from that of Estimated weights.
    too_few
        By method and site, in how many repetitions there were too few records for α.
    """

    federation: data.Federation
    alpha: float
    seed: int
    methods: dict[str, Method]
    coverage: Float64
    size: Float64
    size_counts: NDArray[np.int64]
    bytes_up: Float64
    bytes_down: Float64
    rounds: Float64
    calibrations: dict[str, dict[str, Calibration]]
    split: data.Split
    global_threshold: float
    apart: float
    too_few: Counter[tuple[str, str]]

    @classmethod
    def of(cls, table: Results) -> DemoResults:
        """From the rows of all repetitions, which are ordered by method and site."""
        alpha, seed = table.settings["alpha"], table.metadata["seed"]
        fed, last = federation(seed), calibrated(alpha, seed, table.repetitions - 1)
        names = table.kinds("method")
        shape = (table.repetitions, len(names), len(fed.hospitals))
        by = {name: column.reshape(shape) for name, column in table.columns.items()}
        refused = table.where(too_few=True).columns
        return cls(
            federation=fed,
            alpha=alpha,
            seed=seed,
            methods=competitors(fed),
            coverage=by["coverage"],
            size=by["size"],
            size_counts=np.stack([by[c].sum(axis=0) for c in SIZES], axis=2),
            bytes_up=by["bytes_up"].mean(axis=(0, 2)),
            bytes_down=by["bytes_down"].mean(axis=(0, 2)),
            rounds=by["rounds"].mean(axis=(0, 2)),
            calibrations=last.calibrations,
            split=last.split,
            global_threshold=float(by["threshold"][:, names.index(GLOBAL), 0].mean()),
            apart=float(by["apart"].max()),
            too_few=Counter(zip(refused["method"].tolist(), refused["site"].tolist(), strict=True)),
        )

    @property
    def repetitions(self) -> int:
        return len(self.coverage)

    @property
    def names(self) -> list[str]:
        return list(self.methods)

    @property
    def hospitals(self) -> tuple[data.Hospital, ...]:
        return self.federation.hospitals

    def coverages(self, method: str) -> list[Estimate]:
        """Coverage of a method at every site."""
        m = self.names.index(method)
        return [over_repetitions(self.coverage[:, m, s]) for s in range(len(self.hospitals))]

    def sizes(self, method: str) -> list[Estimate]:
        """Mean set size of a method at every site."""
        m = self.names.index(method)
        return [over_repetitions(self.size[:, m, s]) for s in range(len(self.hospitals))]

    def mean_size(self, method: str) -> Estimate:
        """Mean set size of a method over all sites, each counted once."""
        return over_repetitions(self.size[:, self.names.index(method)].mean(axis=1))


def competitors(fed: data.Federation) -> dict[str, Method]:
    """The methods of the demo by the names its tables use."""
    return {
        LOCAL: methods.Local(),
        GLOBAL: methods.Pooled(),
        ORACLE: methods.OracleWeights(priors={h.name: h.prior for h in fed.hospitals}),
        ESTIMATED: methods.EstimatedWeights(),
        OURS: methods.DPFedCP(),
        PUBLISHED: methods.DPFedCP.paper(),
        SKETCH: methods.Sketch(),
        PRIVATE: methods.Sketch(),
        CERTIFIED: methods.Sketch(),
    }


def budget(alpha: float) -> Privacy:
    """The budget of the private sketch: the smaller α, the less noise it bears."""
    return Privacy(epsilon=max(8, math.ceil(0.25 / alpha)), delta=DELTA, view="secure-sum")


def asked(method: str, alpha: float) -> dict[str, Any]:
    """What a method is asked for besides α."""
    if method == PRIVATE:
        return {"privacy": budget(alpha)}
    return {"certify": CONFIDENCE} if method == CERTIFIED else {}


@dataclass(frozen=True)
class Calibrated:
    """One repetition: records drawn, and what each method makes of them.

    Attributes
    ----------
    split
        The records of every hospital.
    u
        (sites, records) random part of the test records' scores, the same for every method, so
        that differences are not due to luck.
    calibrations
        By method and site.
    """

    split: data.Split
    u: Float64
    calibrations: dict[str, dict[str, Calibration]]


@lru_cache(maxsize=1)
def federation(seed: int) -> data.Federation:
    """The federation of a seed; its model is trained once."""
    return data.federation(seed)


@lru_cache(maxsize=1)
def calibrated(alpha: float, seed: int, r: int) -> Calibrated:
    """Repetition r; the report shows the last one, which is not made again."""
    rng = checks.generator(seed, "demo", "repetition", str(r))
    fed = federation(seed)
    split = data.split(fed, rng)
    own = int(rng.integers(2**31))
    sites = [
        Site.from_probabilities(
            h.name, fed.probs[rows], fed.labels[rows], APS(), own, label_names=data.LABEL_NAMES
        )
        for h, rows in zip(fed.hospitals, split.calibration, strict=True)
    ]
    u = rng.random((len(sites), data.TEST_SIZE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoverWarning)  # too few records are counted instead
        made = {
            # The noise can be repeated, so that the demo can: the statement says what that means.
            m: calibrate(
                sites,
                alpha,
                one,
                seed=own,
                engine=InProcess(source=SeededBytes(own, r)),
                **asked(m, alpha),
            )
            for m, one in competitors(fed).items()
        }
    return Calibrated(split, u, made)


def rows_of(alpha: float, seed: int, r: int) -> list[Row]:
    """One row for each method and site: coverage, set sizes and cost in repetition r."""
    fed, made = federation(seed), calibrated(alpha, seed, r)
    rows = []
    for method, by_site in made.calibrations.items():
        for s, (site, test) in enumerate(zip(fed.hospitals, made.split.test, strict=True)):
            cal = by_site[site.name]
            sets = cal.predict_set(fed.probs[test], u=made.u[s])
            near = made.calibrations[ESTIMATED][site.name].thresholds
            rows.append(
                {
                    "method": method,
                    "site": site.name,
                    "coverage": sets.coverage(fed.labels[test]),
                    "size": float(sets.sizes.mean()),
                    "rounds": cal.cost.rounds,
                    "bytes_up": cal.cost.bytes_up,
                    "bytes_down": cal.cost.bytes_down,
                    "threshold": float(cal.thresholds.min()),
                    "apart": float(np.abs(cal.thresholds - near).max()) if method == OURS else 0.0,
                    "too_few": any("too few" in note for note in cal.notes),
                    **dict(zip(SIZES, np.bincount(sets.sizes, minlength=len(SIZES)), strict=True)),
                }
            )
    return rows

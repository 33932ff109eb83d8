"""The demo's experiment: every method on many random splits of the federation."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover import checks, methods
from fedcover.api import calibrate
from fedcover.calibration import Calibration
from fedcover.demo import data
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.methods.base import Method
from fedcover.report.estimate import Estimate, over_repetitions
from fedcover.scores import APS
from fedcover.site import Site

Float64 = NDArray[np.float64]

LOCAL, GLOBAL, ORACLE, ESTIMATED = "Local", "Global", "Oracle weights", "Estimated weights"
OURS, PUBLISHED = "DP-FedCP", "DP-FedCP as published"


@dataclass(frozen=True)
class Results:
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


def check(alpha: float, repetitions: int, seed: int) -> None:
    """Refuse what cannot be run, before any work."""
    if len(checks.alphas(alpha)) != 1:
        raise FedcoverError(f"alpha is {alpha!r}", allowed="one number", fix="Give one level")
    checks.whole(repetitions, "repetitions", 2)
    checks.whole(seed, "seed", 0)


def competitors(fed: data.Federation) -> dict[str, Method]:
    """The methods of the demo by the names its tables use."""
    return {
        LOCAL: methods.Local(),
        GLOBAL: methods.Pooled(),
        ORACLE: methods.OracleWeights(priors={h.name: h.prior for h in fed.hospitals}),
        ESTIMATED: methods.EstimatedWeights(),
        OURS: methods.DPFedCP(),
        PUBLISHED: methods.DPFedCP.paper(),
    }


class Experiment:
    """Repetitions one by one, so that the caller can show progress."""

    def __init__(self, alpha: float, repetitions: int, seed: int) -> None:
        self.alpha, self.repetitions, self.seed = alpha, repetitions, seed
        self.federation = data.federation(seed)
        self.methods = competitors(self.federation)
        shape = (len(self.methods), len(self.federation.hospitals))
        self._coverage = np.empty((repetitions, *shape))
        self._size = np.empty((repetitions, *shape))
        self._size_counts = np.zeros((*shape, len(data.LABEL_NAMES) + 1), dtype=np.int64)
        self._cost = np.zeros((repetitions, *shape, 3))
        self._thresholds = np.empty(repetitions)
        self._apart = 0.0
        self._too_few: Counter[tuple[str, str]] = Counter()
        self._last: tuple[data.Split, dict[str, dict[str, Calibration]]] | None = None

    def steps(self) -> Iterator[int]:
        """Run the repetitions; yields the number of each when it is done."""
        for r in range(self.repetitions):
            self._repeat(r)
            yield r

    def _repeat(self, r: int) -> None:
        rng = checks.generator(self.seed, "demo", "repetition", str(r))
        fed = self.federation
        drawn = data.split(fed, rng)
        seed = int(rng.integers(2**31))
        sites = [
            Site.from_probabilities(
                h.name, fed.probs[rows], fed.labels[rows], APS(), seed, label_names=data.LABEL_NAMES
            )
            for h, rows in zip(fed.hospitals, drawn.calibration, strict=True)
        ]
        # The same u for every method, so that differences are not due to luck.
        u = rng.random((len(sites), data.TEST_SIZE))
        found: dict[str, dict[str, Calibration]] = {}
        for m, (name, method) in enumerate(self.methods.items()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FedcoverWarning)  # counted below
                found[name] = calibrate(sites, self.alpha, method, seed=seed)
            for s, (site, rows) in enumerate(zip(sites, drawn.test, strict=True)):
                cal = found[name][site.name]
                sets = cal.predict_set(fed.probs[rows], u=u[s])
                self._coverage[r, m, s] = sets.coverage(fed.labels[rows])
                self._size[r, m, s] = sets.sizes.mean()
                self._size_counts[m, s] += np.bincount(sets.sizes, minlength=11)
                self._cost[r, m, s] = cal.cost.rounds, cal.cost.bytes_up, cal.cost.bytes_down
                self._too_few[name, site.name] += any("too few" in n for n in cal.notes)
        self._thresholds[r] = next(iter(found[GLOBAL].values())).thresholds.min()
        for name, cal in found[OURS].items():
            differs = np.abs(cal.thresholds - found[ESTIMATED][name].thresholds)
            self._apart = max(self._apart, float(differs.max()))
        self._last = drawn, found

    def results(self) -> Results:
        assert self._last is not None, "steps() comes first"
        cost = self._cost.mean(axis=(0, 2))
        return Results(
            federation=self.federation,
            alpha=self.alpha,
            seed=self.seed,
            methods=self.methods,
            coverage=self._coverage,
            size=self._size,
            size_counts=self._size_counts,
            rounds=cost[:, 0],
            bytes_up=cost[:, 1],
            bytes_down=cost[:, 2],
            calibrations=self._last[1],
            split=self._last[0],
            global_threshold=float(self._thresholds.mean()),
            apart=self._apart,
            too_few=+self._too_few,
        )

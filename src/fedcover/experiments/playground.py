"""A page in which one moves α, ε and the sizes of a federation, and sees what to expect of it.

A federation may know it before it collects anything, from public numbers and score curves. The
parts are the package's own: the noise that a budget asks for, what it does to sums, the window they
are averaged over, the certificate. Random counts are replaced by what is expected of them. The
curves are those of the shipped CIFAR-10 outputs: misses and set sizes at every edge of the bins.
The page has the formulas once more, in its script, with the curves as data.

``python -m fedcover.experiments.playground docs/playground.html`` makes it anew.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcover._io.facts import to_json
from fedcover._io.files import read_outputs
from fedcover._io.writing import write
from fedcover.certificate import TOTALS_SHARE, certified_rank, certify_known_mix
from fedcover.methods.sketch import factor, plan
from fedcover.methods.sketch.certify import WINDOWS, views
from fedcover.methods.sketch.curve import WHOLE_BIN
from fedcover.methods.sketch.table import NOISY_BINS, Layout, bins_of, standard_cuts
from fedcover.position import positions
from fedcover.privacy.statement import Privacy
from fedcover.scores import APS

Int64 = NDArray[np.int64]

TEMPERATURE = 1.6
"""That of the experiments on CIFAR-10."""

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True)
class Curves:
    """Whole numbers, so that the page and Python start from the same.

    Attributes
    ----------
    records
        Records of each class.
    misses
        (C, B) records of each class whose own score lies in a bin or above it, from the top.
    left_out
        (C, B) how many labels are missing, summed over the records of each class, from the sets
        whose threshold is the lower edge of a bin.
    """

    records: int
    misses: Int64
    left_out: Int64


@lru_cache(maxsize=1)
def cifar10() -> Curves:
    """Scores are APS with a random u of each record."""
    path = files("fedcover.experiments") / "data" / "cifar10_resnet56.npz"
    table = read_outputs(str(path), logits=True, temperature=TEMPERATURE)
    y, score = table.require_labels(), APS()
    cuts = np.array(standard_cuts(NOISY_BINS), dtype=np.int64)
    # Not the usual u, a hash of the probabilities: their last bit differs between processors, and
    # the page that is shipped can then be compared with the one that is made.
    u = np.random.default_rng(0).random(len(y))
    own = score.positions(table.probs, y, u=u)
    every = positions(score.of_all(table.probs, u=u), score.distances_of_all(table.probs, u=u))
    n_classes = len(CLASSES)
    misses, left_out = (np.zeros((n_classes, NOISY_BINS), dtype=np.int64) for _ in range(2))
    for k in range(n_classes):
        for out, at in ((misses, own[y == k]), (left_out, every[y == k].ravel())):
            counts = np.bincount(bins_of(at, cuts), minlength=NOISY_BINS)
            out[k] = np.cumsum(counts)
    return Curves(int((y == 0).sum()), misses, left_out)


Float64 = NDArray[np.float64]

DELTA = 1e-5
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Setting:
    """A federation of equal sites whose records have even labels, and a target.

    Attributes
    ----------
    alpha
        The level α.
    epsilon
        The budget; None for no privacy noise.
    sites, records
        How many sites, and calibration records of each.
    common, share
        The target's most common label, and its share π; the others share the rest evenly. The mix
        is taken as known.
    view
        "secure-sum" or "server".
    """

    alpha: float = 0.1
    epsilon: float | None = 2.0
    sites: int = 10
    records: int = 500
    common: int = 3
    share: float = 0.55
    view: str = "secure-sum"


@dataclass(frozen=True)
class Forecast:
    """What to expect for the target.

    Attributes
    ----------
    sampling, noise, error
        One standard deviation of the coverage: by the calibration records, by the privacy noise,
        by both.
    size
        Mean number of labels in a set of the federation's threshold.
    drowned
        Whether the collection would be refused, since noise would move the coverage by more than
        α/2.
    certified_coverage, certified_size
        Of the threshold that is typically certified.
    global_coverage, global_size
        Of one threshold for all, as if the target had even labels.
    alone_error, alone_size, alone_certified_size
        A target that calibrates with the records of one site alone.
    """

    sampling: float
    noise: float
    error: float
    size: float
    drowned: bool
    certified_coverage: float
    certified_size: float
    global_coverage: float
    global_size: float
    alone_error: float
    alone_size: float
    alone_certified_size: float


def forecast(setting: Setting, curves: Curves) -> Forecast:
    """The forecast of one setting."""
    n_classes, bins = curves.misses.shape
    alpha, total = setting.alpha, setting.sites * setting.records
    pi = np.full(n_classes, (1 - setting.share) / (n_classes - 1))
    pi[setting.common] = setting.share
    rates = curves.misses / curves.records
    missed, sizes = pi @ rates, n_classes - pi @ (curves.left_out / curves.records)
    n = total / n_classes
    shares = pi / n

    i, part = _crossing(missed, alpha)
    at = _between(rates, i, part)
    sampling = math.sqrt(float(np.sum(pi**2 * at * (1 - at) / n)))
    layout = Layout(n_classes, standard_cuts(bins))
    table_sd = label_sd = noise = 0.0
    drowned = False
    if setting.epsilon is not None:
        privacy = Privacy(setting.epsilon, DELTA, view=setting.view)
        asked = plan.noise_for(privacy, layout, setting.sites, None)
        # All shares are in the sum, though ε is promised by fewer.
        spread = math.sqrt(setting.sites) / asked.scale
        table_sd, label_sd = asked.table_sigma * spread, asked.label_sigma * spread
        on_table = _noise(missed, pi, shares, rates, i, table_sd)
        on_totals = float(np.linalg.norm(shares * at)) * label_sd
        noise = math.hypot(on_table, on_totals)
        predicted = plan.predicted_deviation(privacy, layout, setting.sites, total, None)
        drowned = bool(predicted > alpha / 2)

    edge = _certified(np.ceil(n * rates), table_sd, np.full(n_classes, n), pi, alpha, label_sd)
    even = rates.mean(axis=0)
    j, piece = _crossing(even, alpha)
    rank = certified_rank(setting.records, alpha, CONFIDENCE)[0]
    # The k-th smallest of m scores covers k/(m+1) on average.
    alone = 0.0 if rank is None else 1 - (rank + 1) / (setting.records + 1)
    return Forecast(
        sampling=sampling,
        noise=noise,
        error=math.hypot(sampling, noise),
        size=float(_between(sizes, i, part, n_classes)),
        drowned=drowned,
        certified_coverage=1.0 if edge == 0 else 1 - float(missed[edge - 1]),
        certified_size=float(n_classes) if edge == 0 else float(sizes[edge - 1]),
        global_coverage=1 - float(_between(missed, j, piece)),
        global_size=float(_between(sizes, j, piece, n_classes)),
        alone_error=math.sqrt(alpha * (1 - alpha) / setting.records),
        alone_size=float(_between(sizes, i, part, n_classes)),
        alone_certified_size=float(_between(sizes, *_crossing(missed, alone), n_classes))
        if alone
        else float(n_classes),
    )


def _crossing(missed: Float64, level: float) -> tuple[int, float]:
    """The first bin with more misses than the level, and how far into it the level lies."""
    i = min(int(np.searchsorted(missed, level, side="right")), len(missed) - 1)
    before = float(missed[i - 1]) if i else 0.0
    width = float(missed[i]) - before
    return i, (level - before) / width if width > 0 else 0.0


def _between(values: Float64, i: int, part: float, first: float = 0.0) -> Float64:
    """Values at a place inside bin i, along a line; `first` holds above all bins."""
    before = values[..., i - 1] if i else np.full(values.shape[:-1], first)
    return np.asarray(before + part * (values[..., i] - before))


def _noise(
    missed: Float64, pi: Float64, shares: Float64, rates: Float64, i: int, table_sd: float
) -> float:
    """Deviation of the target's misses by noise on the table, after the averaging over a window.

    The window is chosen as in `methods.sketch.curve`, on the true curve.
    """
    bins, size = len(missed), float(np.linalg.norm(shares))
    cells = np.diff(missed, prepend=0.0)
    crowd = WHOLE_BIN + 3 * table_sd * factor.count_deviation(bins) * size
    noise = 0.0
    for window in factor.windows(bins):
        noise = table_sd * float(factor.sum_deviation(bins, window)[i]) * size
        low, high = max(i - window - 1, 0), min(i + window, bins - 1)
        if missed[high] - missed[low] <= noise and cells[low : high + 1].max() <= crowd:
            break
    return noise


def _certified(
    misses: Float64,
    table_sd: float,
    totals: Float64,
    pi: Float64,
    alpha: float,
    label_sd: float,
) -> int:
    """The edge that is certified where all counts are as expected."""
    seen, variance = views(misses, table_sd)
    done = certify_known_mix(
        seen, variance, totals, mix=pi, alpha=alpha, confidence=CONFIDENCE, total_sd=label_sd
    )
    return done.edges[0]


def write_page(path: str | Path) -> None:
    """Write the page, which needs nothing but a browser."""
    write(path, html())


def html() -> str:
    """The page as text."""
    import jinja2

    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("fedcover.experiments", "."),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    template = pages.get_template("playground.html.j2")
    return template.render(facts=facts(cifar10()), classes=CLASSES, temperature=TEMPERATURE)


def facts(curves: Curves) -> str:
    """Curves and constants of the package that the script takes from here."""
    return to_json(
        {
            "records": curves.records,
            "misses": _steps(curves.misses),
            "left_out": _steps(curves.left_out),
            "classes": list(CLASSES),
            "delta": DELTA,
            "confidence": CONFIDENCE,
            "unit": factor.UNIT,
            "label_share": plan.LABEL_SHARE,
            "least_share_sigma": plan.LEAST_SHARE_SIGMA,
            "whole_bin": WHOLE_BIN,
            "windows": list(WINDOWS),
            "totals_share": TOTALS_SHARE,
        },
        compact=True,
    )


def _steps(counts: NDArray[np.int64]) -> list[list[int]]:
    """What each bin adds: short numbers."""
    steps: list[list[int]] = np.diff(counts, axis=1, prepend=0).tolist()
    return steps


if __name__ == "__main__":
    write_page(sys.argv[1])

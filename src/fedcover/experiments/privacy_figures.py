"""Figures and tables of the study of privacy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments import imagenet
from fedcover.experiments.cifar10 import TEMPERATURE
from fedcover.experiments.compare import ALPHA
from fedcover.experiments.drawing import Line, lines, violins
from fedcover.experiments.privacy import (
    CERTIFY,
    EPSILONS,
    FEDERATIONS,
    SIGMAS,
    SWEEPS,
    sweep_of,
)
from fedcover.experiments.published import true_epsilons
from fedcover.experiments.records import Results
from fedcover.experiments.showing import mean_and_spread
from fedcover.report.both import plot
from fedcover.report.page import Table, Text

if TYPE_CHECKING:
    from fedcover.report.page import Section

RECORDS = {"CIFAR-10": 5000, "simulated": 1050}
TARGET = {"ImageNet": "agent 11", "CIFAR-10": "agent 4", "simulated": "agent 2"}

UNITS = (
    (
        "Sketch",
        "ε hides one record, score and label, replaced by any other, from a server that sees sums "
        "over the sites, at δ = 10⁻⁵. Numbers of records are public. DP-FedCP with a budget is the "
        "sketch.",
    ),
    (
        "Sketch, certified",
        f"The same table, and thresholds so large that the coverage is 1-α or more with "
        f"probability {CERTIFY:g}, over the calibration records, the noise, and the labels from "
        "which the target's mix was counted. So its coverage lies above 1-α on purpose.",
    ),
    (
        "published",
        "Algorithm 1 sends label counts and weight totals exactly, so no noise on its gradients "
        "hides a label. Here ε hides the score of one record, its label being public: the weaker "
        "promise, which favours it. Noise is set for sums over the sites, 200 · 20 steps of one "
        "run per label; every local step counts as a sum of its own, exact for K = 1 only. "
        "All records are used (no subsample), which favours it, too.",
    ),
    (
        "Exponential, trusted server",
        "ε (δ = 0) hides one record from those who see the thresholds; the server sees every raw "
        "score. It knows nothing of label shift, and aims at 1-α for the pooled mix.",
    ),
)
"""What ε stands for, by method."""


def sections(results: Results) -> list[Section]:
    """All of them, in reading order."""
    out: list[Section] = []
    for federation in SWEEPS:
        out.append(_sweep(results, federation))
    out.append(_true_table(results))
    out.append(Text("What does ε protect below?", terms=list(UNITS), boxed=True))
    for federation in FEDERATIONS:
        out += _budgets(results, federation)
    out.append(_table(results))
    return out


def _key(federation: str) -> str:
    return federation.lower().replace("-", "")


def _mixture(results: Results, federation: str) -> tuple[float, ...]:
    """λ^i of a federation, on average."""
    return tuple(json.loads(results.facts["settings"]["mixtures"])[federation])


def _data(results: Results, federation: str) -> tuple[str, int, str]:
    """A federation's name in titles, its number of calibration records, and its data in words."""
    facts = results.facts["settings"]
    if federation == "simulated":
        return federation, RECORDS[federation], "three Gaussians"
    if federation == "CIFAR-10":
        return federation, RECORDS[federation], f"{facts['logits']}, temperature {TEMPERATURE:g}"
    what = f"{facts['large']}, temperature {imagenet.TEMPERATURE:g}, 90 % shift"
    return imagenet.marked(results, "ImageNet setting"), sum(facts["large_sizes"]), what


def _sweep(results: Results, federation: str) -> Section:
    found = {kind: sweep_of(results, federation, kind) for kind in SWEEPS[federation]}
    groups = {}
    for sigma in SIGMAS:
        seen = ("∞", "∞")
        if sigma:
            true = true_epsilons(sigma, _mixture(results, federation), 1)
            seen = (_number(true["server"]), _number(true["secure sum"]))
        name = f"σ_g = {sigma:g}\nε: {seen[0]} | {seen[1]}"
        groups[name] = {kind: by[sigma] for kind, by in found.items()}
    ends = "; ".join(
        f"{kind}: mean {by[SIGMAS[1]].mean():.3f} → {by[SIGMAS[-1]].mean():.3f}, standard "
        f"deviation {by[SIGMAS[1]].std():.3f} → {by[SIGMAS[-1]].std():.3f}"
        for kind, by in found.items()
    )
    data, n, what = _data(results, federation)
    own = " Each label has a run and noise of its own, unless said otherwise."
    return plot(
        f"privacy-sweep-{_key(federation)}",
        f"The paper's noise sweep, {data}" if federation == "ImageNet" else f"The same on {data}",
        f"From σ_g = 10 to 100: {ends}.",
        f"Coverage at {TARGET[federation]} of Algorithm 1 at the published settings (T = 200, "
        f"K = 20, η = 10⁻³, γ = 10⁻⁶, mean of all iterates, N̄ = ⌊n/2⌋ records), "
        f"{results.repetitions} repetitions, α = {ALPHA}, n = {n:,} calibration records, {what}, "
        f"random U.{own} Dashed: target 1-α. Below σ_g: true ε of a whole site's data for one run, "
        "when the server sees each site | sums only.",
        f"Violins of coverage by noise, {federation}",
        violins,
        groups,
        1 - ALPHA,
        "noise on every gradient, with its true ε (δ = 10⁻⁵)",
        "coverage (share of test records)",
    )


def _budgets(results: Results, federation: str) -> list[Section]:
    mine = results.where(part="budget", federation=federation)
    names = [m for m in mine.kinds("method") if m != "no privacy"]
    free = mine.where(method="no privacy")
    best = _rms(free.values("coverage"))
    x = np.array(EPSILONS)
    error, size = {}, {}
    for m in names:
        by = [mine.where(method=m, epsilon=e) for e in EPSILONS]
        error[m] = Line(x, np.array([_rms(b.values("coverage")) for b in by]))
        size[m] = Line(x, np.array([b.values("size").mean() for b in by]))
    at_one = {m: _or_refused(line.y[EPSILONS.index(1.0)]) for m, line in error.items()}
    refused = [f"{m} at ε = {e:g}" for m in names for e in x[np.isnan(error[m].y)]]
    below = (
        f"{results.repetitions} repetitions, α = {ALPHA}, n = {RECORDS[federation]} calibration "
        "records, random U, δ = 10⁻⁵. Dashed: without privacy."
    )
    if refused:
        below += f" Refused, because noise would drown α: {', '.join(refused)}."
    axis = "true ε (see above for what it protects)"
    return [
        plot(
            f"privacy-error-{_key(federation)}",
            f"How far from the promise at a true ε? {federation}",
            "At ε = 1: " + "; ".join(f"{m}: {v}" for m, v in at_one.items()) + ".",
            f"Root mean square of coverage less (1-α) at {TARGET[federation]}. {below}",
            f"Coverage error against ε by method, {federation}",
            lines,
            error,
            axis,
            "coverage error (root mean square)",
            target=best,
            log="xy",
        ),
        plot(
            f"privacy-size-{_key(federation)}",
            f"How large are the sets? {federation}",
            "Smaller sets are better only where the coverage is kept.",
            f"Mean number of labels in a set at {TARGET[federation]}. {below}",
            f"Set size against ε by method, {federation}",
            lines,
            size,
            axis,
            "set size (labels)",
            target=float(free.values("size").mean()),
            log="x",
        ),
    ]


def _true_table(results: Results) -> Table:
    columns = [
        "noise",
        "(a) each site seen",
        "(b) sums, ImageNet",
        "(b) sums, CIFAR-10",
        "(b) CIFAR-10, 10 labels",
        "Theorem 4.4, ImageNet",
    ]
    rows = []
    for sigma in SIGMAS[1:]:
        true = true_epsilons(sigma, _mixture(results, "CIFAR-10"), 10)
        keys = ("server", "secure sum, ImageNet", "secure sum", "secure sum, all labels")
        cells = [_number(true[k]) for k in (*keys, "claimed, ImageNet")]
        rows.append([f"σ_g = {sigma:g}", *cells])
    return Table(
        "The true ε of the sweep",
        columns,
        rows,
        "ε of all data of one site, replaced, at δ = 10⁻⁵; one label unless said otherwise, T = "
        "200, K = 20. Not counted: label counts, numbers of records and weight totals, which "
        "Algorithms 1 and 2 send exactly. Theorem 4.4 is the paper's claim for one run; its proof "
        "does not hold, and where it lies above (b) that is by chance.",
    )


def _table(results: Results) -> Table:
    mine = results.where(part="budget")
    names = [m for m in mine.kinds("method") if m != "no privacy"]
    rows = []
    for federation in FEDERATIONS:
        for m in ("no privacy", *names):
            cells = [f"{federation}: {m}"]
            for e in EPSILONS:
                wanted = np.inf if m == "no privacy" else e
                got = mine.where(federation=federation, method=m, epsilon=wanted)
                v, size = got.values("coverage"), got.values("size")
                known = not np.isnan(v).any()
                cells.append(mean_and_spread(v) + f"\n{size.mean():.2f}" * known)
            rows.append(cells)
    return Table(
        "All methods in numbers",
        ["method", *(f"ε = {e:g}" for e in EPSILONS)],
        rows,
        f"Coverage, mean ± standard deviation over {results.repetitions} repetitions, and below it "
        f"the mean set size; α = {ALPHA}. Refused: noise would drown α, so no budget was spent; as "
        "numbers of records are public, in all repetitions or in none.",
    )


def _rms(coverage: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((coverage - (1 - ALPHA)) ** 2)))


def _or_refused(error: float) -> str:
    return "refused" if np.isnan(error) else f"{error:.3f}"


def _number(epsilon: float | None) -> str:
    return "-" if epsilon is None else f"{epsilon:.3g}"

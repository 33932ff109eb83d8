"""DP-FedCP with record-level differential privacy: three noisy rounds for all levels and labels.

Iterating pays for every step, so the private form asks for few numbers and makes the most of them:

1. label counts with discrete Gaussian noise give the ratios ŵ, which from then on are public;
2. the weighted scores of every target as a coarse histogram, Σ_k ŵ_{Y_k} 1{V_k in bin}: a record
   sits in one bin, so noise does not grow with their number, and all α and labels share it;
3. the same again, or zoomed in where a single bin holds too much of the mass.

All values are integers and so is the noise. `noisy_curve` turns the histograms into thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedcover.checks import MOST_RECORDS
from fedcover.errors import FedcoverError
from fedcover.position import positions
from fedcover.privacy import accounting, noise
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.protocols.base import (
    Fit,
    Float64,
    Message,
    Published,
    Round,
    SecureSum,
    Task,
    ask_all,
    reply_of,
    target_counts,
)
from fedcover.protocols.noisy_curve import (
    Histogram,
    curve_of,
    first_grid,
    thresholds_on,
    zoomed,
)
from fedcover.site import Site

COUNT_SCALE = 64
"""Counts are multiplied by this before integer noise, so that the noise is many units wide."""

WEIGHT_SCALE = 1 << 14
"""The largest weight ŵ as an integer; smaller ones in proportion."""

SITE_SCALE = 1 << 30
"""The largest total weight of a site as an integer, where whole sites are protected."""

BUDGET_SHARES = (4.0, 4.0, 9.0)
"""Parts of the budget for counts, first and second histogram; chosen by simulation."""

LARGEST_RATIO = 20.0
"""Ratios are cut off here: noise grows with the largest, and noisy counts can make it absurd."""


@dataclass(frozen=True)
class Plan:
    """Standard deviations of the noise of each release, in its integer units, and their account."""

    count_sigma: float
    histogram_sigmas: tuple[float, float]
    events: tuple[Event, ...]


def plan(task: Task, privacy: Privacy, public_counts: bool) -> Plan:
    """Noise that spends exactly the budget on counts and two histograms of every target."""
    if privacy.unit == "site" and not public_counts:
        raise FedcoverError(
            "privacy.unit is 'site' and the label counts are not public",
            allowed="public_counts=True with unit='site'",
            fix="A whole site moves its counts without limit: take them as public if they are",
        )
    bin_sensitivity = _bin_sensitivity(privacy, privacy.unit == "site", len(task.targets))
    what = f"weighted score histogram of {len(task.targets)} target(s)"
    *first, one, two = accounting.split_noise(
        privacy.epsilon, privacy.delta, BUDGET_SHARES[1:] if public_counts else BUDGET_SHARES
    )
    sigmas = (one * bin_sensitivity, two * bin_sensitivity)
    events: tuple[Event, ...] = (
        GaussianRelease(what, sigmas[0], bin_sensitivity),
        GaussianRelease(what + ", again or zoomed in", sigmas[1], bin_sensitivity),
    )
    if public_counts:
        return Plan(0.0, sigmas, events)
    count_sensitivity = _reach(privacy) * COUNT_SCALE
    count_sigma = first[0] * count_sensitivity
    counts = GaussianRelease("label counts", count_sigma, count_sensitivity)
    return Plan(count_sigma, sigmas, (counts, *events))


EFFECT = {
    "balanced": (
        "noise on the scores moves the coverage up and down around 1-α; noise on the label counts "
        "of a small site can also shift it"
    ),
    "guaranteed": (
        "thresholds are raised by one standard deviation of the noise on the scores and end on a "
        "bin's edge; noise on the label counts is not covered by that"
    ),
}


def _most(whole_site: bool) -> int:
    """What the unit of privacy can put into a histogram at most: a record, or a whole site."""
    return SITE_SCALE if whole_site else WEIGHT_SCALE


def _reach(privacy: Privacy) -> float:
    """How many cells a unit touches, as a Euclidean norm: two if it is replaced, else one."""
    return math.sqrt(2) if privacy.relation == "replace" else 1.0


def _bin_sensitivity(privacy: Privacy, whole_site: bool, targets: int) -> float:
    return _reach(privacy) * _most(whole_site) * math.sqrt(targets)


def statement(task: Task, privacy: Privacy, mode: str, public_counts: bool) -> PrivacyStatement:
    """What holds for a private run."""
    events = plan(task, privacy, public_counts).events
    public: tuple[str, ...] = ()
    if public_counts:
        public = ("the label counts of each site", "the number of records of each site")
    elif privacy.relation == "replace":
        public = ("the number of records of each site",)
    given = [t.name for t in task.targets if t.distribution is not None]
    if given:
        public += (f"the label distribution given for {', '.join(given)}",)
    epsilon = accounting.epsilon(events, privacy.delta)
    return PrivacyStatement(
        epsilon=epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        relation=privacy.relation,
        view=privacy.view,
        events=events,
        public=public,
        effect=EFFECT[mode],
    )


def _noisy_others(n_sites: int) -> int:
    """Noise shares that a viewer cannot take off: all but one, because a site knows its own."""
    return max(1, n_sites - 1)


def charges(query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
    """What answering a query costs, worked out by the site from the query alone.

    The noise in the query is what this site adds. In the secure-sum view the others add as much
    each; the site must know how many take part, and that they do.
    """
    sigma = float(query.numbers["sigma"])
    if query.kind == "private-counts":
        if privacy.unit == "site":
            return (ExactRelease("label counts, which a whole site moves without limit"),)
        exact: list[Event] = []
        if query.numbers["size"] and privacy.relation == "add-remove":
            exact.append(ExactRelease("number of records"))
        if sigma == 0:
            return (ExactRelease("label counts"), *exact)
        return (GaussianRelease("label counts", sigma, _reach(privacy) * COUNT_SCALE), *exact)
    seen = sigma * math.sqrt(_noisy_others(n_sites)) if privacy.view == "secure-sum" else sigma
    whole_site = bool(query.numbers["whole_site"])
    if privacy.unit == "site" and not whole_site:
        return (ExactRelease("score histogram with noise for one record, not for a whole site"),)
    targets = len(query.arrays["weights"])
    sensitivity = _bin_sensitivity(privacy, whole_site, targets)
    return (GaussianRelease(f"weighted score histogram of {targets} target(s)", seen, sensitivity),)


def fits(
    task: Task, privacy: Privacy, mode: str, public_counts: bool
) -> Generator[Round | SecureSum, Round, Published]:
    """Server half: the fit of every target."""
    budget = plan(task, privacy, public_counts)
    known_sizes = public_counts or privacy.relation == "replace"
    numbers = {"sigma": budget.count_sigma, "size": int(known_sizes)}
    replies = yield ask_all(task, Message("private-counts", numbers=numbers))
    noisy = np.stack([_integers(replies, s, "counts", task.n_classes) for s in task.sites])
    counts = noisy / COUNT_SCALE
    sizes = np.array([_size(replies, s, counts[i]) for i, s in enumerate(task.sites)])
    spread = budget.count_sigma / COUNT_SCALE

    # eq. (7): every site's label distribution counts by its number of calibration records.
    rows = np.maximum(counts, 0.0)
    rows *= (sizes / np.maximum(rows.sum(axis=1), 1.0))[:, None]
    pool = np.maximum(rows.sum(axis=0), 1.0)
    mixture = pool / pool.sum()
    found = [_ratios(task, k, counts, sizes, mixture, spread) for k in range(len(task.targets))]
    ratios = np.array([w for w, _ in found])
    # One integer unit: the heaviest record, or the heaviest site, has as many as it may.
    whole_site = privacy.unit == "site"
    heaviest = (ratios @ rows.T).max(axis=1) if whole_site else ratios.max(axis=1)
    unit = heaviest / _most(whole_site)
    weights = np.floor(ratios / unit[:, None]).astype(np.int64)
    totals = sizes.sum() * (ratios @ mixture)

    # "Guaranteed" ends on an edge: one between each expected quantile and 1 keeps it from 1.
    stops = task.alphas if mode == "guaranteed" else ()
    grids = [first_grid(budget.histogram_sigmas[1] * u, stops) for u in unit / totals]
    seen: list[list[Histogram]] = [[] for _ in task.targets]
    shared = privacy.view == "secure-sum"
    for k, sigma in enumerate(budget.histogram_sigmas):
        bins, present = yield from _histograms(
            task, privacy, weights, [g.edges for g in grids], sigma
        )
        for t, masses in enumerate(bins):
            scale = unit[t] / totals[t]
            shares = present / _noisy_others(task.noisy) if shared else present
            noise_sd = sigma * scale * math.sqrt(shares)
            seen[t].append(Histogram(grids[t].edges, masses * scale, noise_sd))
            if k == 0:
                curve = curve_of(grids[t], seen[t])
                grids[t] = zoomed(grids[t], curve, task.alphas, noise_sd)
    curves = [curve_of(grid, s) for grid, s in zip(grids, seen, strict=True)]
    return {
        target.name: Fit(
            positions=positions(thresholds_on(curves[t], task.alphas, ratios[t] / totals[t], mode)),
            ratios=ratios[t],
            records=mixture * sizes.sum(),
            total=float(totals[t]),
            available=round(float(sizes.sum())),
            unseen=np.zeros(task.n_classes),
            blurred=1 - found[t][1],
        )
        for t, target in enumerate(task.targets)
    }


def _ratios(
    task: Task, k: int, counts: Float64, sizes: Float64, mixture: Float64, spread: float
) -> tuple[Float64, float]:
    """ŵ of a target from noisy counts, and how much of its difference from 1 is kept.

    Noisy counts are drawn towards the average mix as far as noise explains the difference (James
    and Stein); without that, small targets would get absurd ratios.
    """
    target = task.targets[k]
    own = target_counts(task, target, counts)
    keep = 1.0
    if target.distribution is not None:
        wanted = own
    else:
        members = [task.sites.index(m) for m in target.members]
        size = sizes[members].sum()
        apart = own - size * mixture
        noise_part = (len(own) - 1) * len(members) * spread**2
        keep = max(0.0, 1 - noise_part / max(float(apart @ apart), 1e-300)) if spread else 1.0
        wanted = np.maximum(size * mixture + keep * apart, 0.0)
        wanted = wanted / wanted.sum() if wanted.sum() > 0 else mixture
    return np.minimum(wanted / mixture, LARGEST_RATIO), keep


def _histograms(
    task: Task, privacy: Privacy, weights: NDArray[np.int64], edges: list[Float64], sigma: float
) -> Generator[Round | SecureSum, Round, tuple[list[Float64], int]]:
    """The noisy weighted histograms of every target, summed, and over how many sites."""
    ends = np.cumsum([0, *(len(e) - 2 for e in edges)])
    shared = privacy.view == "secure-sum"
    arrays = {"weights": weights, "cuts": np.concatenate([e[1:-1] for e in edges]), "ends": ends}
    # Shares of the noise are equal; in the server view every site adds all of it.
    whole_site = int(privacy.unit == "site")
    share = sigma / math.sqrt(_noisy_others(task.noisy)) if shared else sigma
    query = Message("private-histogram", arrays, {"sigma": share, "whole_site": whole_site})
    asked = ask_all(task, query)
    bins = int(ends[-1]) + len(edges)
    if shared:
        replies = yield SecureSum(asked, {"bins": (bins,)})
        total = _integers(replies, "sum", "bins", bins)
        present = len(replies["sum"].arrays["present"])
    else:
        replies = yield asked
        total = np.sum([_integers(replies, s, "bins", bins) for s in task.sites], axis=0)
        present = len(task.sites)
    starts = ends + np.arange(len(edges) + 1)
    return [total[a:b].astype(np.float64) for a, b in pairwise(starts)], present


def answer_counts(query: Message, site: Site) -> Message:
    """Site half: label counts with integer noise; the size only where it is public."""
    if not query.numbers["size"] and site.separate_counts:
        raise FedcoverError(
            f"site {site.name!r} has label counts of other data, with relation='add-remove'",
            allowed="label counts of the calibration data, whose noisy sum stands for their number",
            fix="Use relation='replace', or leave label_counts out",
        )
    sigma = float(query.numbers["sigma"])
    drawn = noise.discrete_gaussian(sigma, site.n_classes) if sigma else 0
    size = {"size": len(site)} if query.numbers["size"] else {}
    return Message("private-counts", {"counts": site.label_counts * COUNT_SCALE + drawn}, size)


def answer_histogram(query: Message, site: Site) -> Message:
    """Site half: integer weights of the records in each bin of each target, with integer noise."""
    weights, cuts, ends = (query.arrays[k] for k in ("weights", "cuts", "ends"))
    whole_site = bool(query.numbers["whole_site"])
    most = _most(whole_site)
    # By shape and public numbers alone: a check that looks at the data would be an oracle.
    whole = weights.dtype == ends.dtype == np.int64 and weights.ndim == 2 and ends.ndim == 1
    good = whole and cuts.ndim == 1 and weights.shape[1] == site.n_classes
    good = good and len(ends) == len(weights) + 1 and ends[0] == 0 and ends[-1] == len(cuts)
    good = good and bool((np.diff(ends) >= 0).all() and np.isfinite(cuts).all())
    if not good or (weights < 0).any() or (weights > most).any():
        raise FedcoverError(
            "a query has weights or bins outside what was agreed",
            allowed=f"weights from 0 to {most} for every label, and bins in order",
            fix="Do not answer this server: it would void the privacy account",
        )
    out = []
    for t in range(len(weights)):
        at = np.searchsorted(cuts[ends[t] : ends[t + 1]], site.scores, side="left")
        bins = np.zeros(ends[t + 1] - ends[t] + 1, dtype=np.int64)
        np.add.at(bins, at, weights[t][site.labels])
        if whole_site and bins.sum() > most:  # then no site can put in more than that
            bins = np.floor(bins * (most / bins.sum())).astype(np.int64)
        out.append(bins)
    exact = np.concatenate(out)
    sigma = Fraction(float(query.numbers["sigma"]))
    return Message(
        "private-histogram", {"bins": exact + noise.discrete_gaussian(sigma, exact.shape)}
    )


def _integers(replies: Round, site: str, key: str, length: int) -> NDArray[np.int64]:
    array = reply_of(replies, site).arrays.get(key, np.empty(0))
    if array.shape != (length,) or array.dtype != np.int64:
        raise FedcoverError(
            f"site {site!r} answered {key!r} with something that cannot be",
            allowed=f"{length} whole numbers",
            fix="Check that site's data, or leave it out",
        )
    return array


def _size(replies: Round, site: str, counts: Float64) -> float:
    size = replies[site].numbers.get("size")
    if size is None:
        return float(max(1.0, counts.sum()))
    if not isinstance(size, (int, np.integer)) or not 1 <= size <= MOST_RECORDS:
        raise FedcoverError(
            f"site {site!r} answered with a size that cannot be",
            allowed="a whole number of at least 1",
            fix="Check that site's data, or leave it out",
        )
    return float(size)

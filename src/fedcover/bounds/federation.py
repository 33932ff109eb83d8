"""What the paper's results say about one federation and target: the rows of `fedcover bounds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.bounds import coverage, optimisation
from fedcover.bounds.coverage import Bound
from fedcover.bounds.optimisation import theorem_4_4_paper_noise
from fedcover.errors import FedcoverError
from fedcover.labelshift.weights import calibration_mixture, likelihood_ratio
from fedcover.members import checked_federation
from fedcover.site import Site

Float64 = NDArray[np.float64]

PROVED_CLASSES = 65
"""Number of classes up to which eq. (11) holds as printed."""


@dataclass(frozen=True)
class BoundRow:
    """One result: what it bounds, the bound (None if something is missing), what dominates it."""

    result: str
    meaning: str
    value: float | None
    dominant: str = ""
    note: str = ""

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least 1 and so says nothing."""
        return self.value is not None and self.value >= 1


def federation_bounds(
    sites: Sequence[Site],
    target: str | ArrayLike,
    alpha: float,
    gamma: float = 1e-6,
    *,
    densities: tuple[float, float] | None = None,
    optimisation_error: float = 0.0,
) -> list[BoundRow]:
    """The paper's bounds for one target, with estimates from label counts where truth is unknown.

    The mixture, the ratios and the smallest label share are those of the sites' label counts, so
    the values are estimates of the bounds. Theorem 4.1, Corollary 4.2 and Theorem 4.4 are taken at
    the published settings of Algorithm 1, for the query label of the largest ratio.

    Parameters
    ----------
    sites
        The sites that take part.
    target
        The name of a site, or the label counts of a target from outside, (C,).
    alpha
        Miscoverage level α.
    gamma
        Smoothing parameter γ.
    densities
        Bounds (m, M) on the density of the scores, which Theorem 4.3 needs.
    optimisation_error
        Excess loss ε_optim of the quantile search; 0 for the exact minimiser.

    Returns
    -------
    One row per result, in the order of the paper.
    """
    sites = checked_federation(sites)
    (alpha,) = checks.alphas(checks.real(alpha, "alpha", 0, 1))
    counts = np.stack([s.label_counts for s in sites])
    sizes = np.array([len(s) for s in sites])
    own = _target_counts(target, sites)
    ratios, mixture = likelihood_ratio(counts, own, sizes), calibration_mixture(counts, sizes)
    records = np.sum([s.calibration_counts for s in sites], axis=0)
    if ratios @ mixture <= 0:
        raise FedcoverError(
            "no site has a label that the target has",
            allowed="a target that shares labels with the sites",
            fix="Add a site with the target's labels, or the target itself",
        )

    span = coverage.theorem_2_1_exact_weights(alpha, _largest_weight(ratios, records, own))
    # A ratio of distributions has mean 1, so its largest value is at least 1; a ratio of counts may
    # fall short where no site has some of the labels.
    oracle = coverage.theorem_2_2_subsampled(sizes, max(1.0, float(ratios.max())))
    shift = (int(own.sum()), int(counts.sum()), sites[0].n_classes, float(mixture.min()))
    printed = coverage.equation_11_expected_shift_distance(*shift)
    sound = coverage.expected_shift_distance(*shift)
    unseen = int((mixture == 0).sum())
    missing = f"infinite: {unseen} labels occur at no site" if unseen else ""
    # The repaired bound on E[R], as eq. (11) is not established for many labels; R itself, a total
    # variation distance, is never above 1.
    main = coverage.theorem_2_4_estimated(sizes, ratios, mixture, min(1.0, sound.total))
    error = "error of the coverage"
    rows = [
        BoundRow(
            "Theorem 2.1",
            "excess coverage with exact weights",
            span.high - span.low,
            "largest weight",
            f"coverage in {span}",
        ),
        _row("Theorem 2.2", f"{error}, known ratios, half of the data", oracle),
        _row(
            "Equation 11",
            "expected shift distance R, as printed",
            printed,
            missing or _many_classes(sites[0].n_classes),
        ),
        _row("Equation 11, repaired", "expected shift distance R", sound, missing),
        BoundRow(
            "Lemma 2.3",
            "coverage lost to wrong ratios: the distance R itself",
            None,
            note="needs the true label distributions; equation 11 bounds its expectation",
        ),
        _row(
            "Theorem 2.4",
            f"{error}, estimated ratios, half of the data",
            main,
            "with the repaired bound on R, at most 1",
        ),
        BoundRow(
            "Theorem 3.1",
            "error of the threshold from smoothing",
            optimisation.theorem_3_1_moreau(gamma),
            "gamma",
        ),
        *_algorithm_1(sites, ratios, alpha, gamma),
    ]
    meaning = "difference in coverage, DP-FedCP to exact quantile"
    if densities is None:
        note = "needs bounds m ≤ f ≤ M on the density of the scores"
        return [*rows, BoundRow("Theorem 4.3", meaning, None, note=note)]
    if not isinstance(densities, (tuple, list)) or len(densities) != 2:
        raise FedcoverError(
            f"densities is {densities!r}", allowed="two numbers (m, M)", fix="(0.1, 9), for example"
        )
    search = optimisation.theorem_4_3_coverage(
        int(sizes.sum()), own, ratios, mixture, *densities, optimisation_error, gamma
    )
    zero = "infinite: a label with ratio 0" if ratios.min() == 0 else ""
    return [*rows, _row("Theorem 4.3", meaning, search, zero)]


def _algorithm_1(sites: list[Site], ratios: Float64, alpha: float, gamma: float) -> list[BoundRow]:
    """The results about Algorithm 1, at its published settings and from q₀ = 0.5."""
    heaviest = int(np.argmax(ratios))
    total = sum(len(s) for s in sites)
    samples = [
        # Eq. (14): each site holds the part N^i/N of the query's point mass at the score 1.
        (np.append(s.scores, 1.0), np.append(ratios[s.labels], len(s) / total * ratios[heaviest]))
        for s in sites
    ]
    samples = [(v, w) for v, w in samples if w.sum() > 0]
    weights = np.array([w.sum() for _, w in samples])
    share = float((weights / weights.sum()).max())
    zeta = optimisation.heterogeneity(samples, alpha, gamma)
    run = (0.5, 200, 20, gamma, 0.0, zeta)
    step, loss = optimisation.corollary_4_2_step(*run), optimisation.corollary_4_2_convergence(*run)
    noise = theorem_4_4_paper_noise(1.0, 1e-5, 200, 20, len(sites), len(sites), share)
    says = "excess pinball loss of Algorithm 1, T=200, K=20"
    return [
        BoundRow(
            "Theorem 4.1",
            says + ", η=0.001",
            None,
            note=f"does not apply: it needs η ≤ γ/10 = {gamma / 10:g}",
        ),
        _row("Corollary 4.2", f"{says}, η*={step:.2g}", loss, f"heterogeneity ζ = {zeta:.2g}"),
        BoundRow(
            "Theorem 4.4",
            "the paper's privacy claim",
            None,
            note=f"claims ε=1, δ=1e-5 at σ_g={noise:.3g}; its proof is not sound",
        ),
    ]


def _row(result: str, meaning: str, bound: Bound, note: str = "") -> BoundRow:
    return BoundRow(result, meaning, bound.total, bound.dominant, note)


def _many_classes(n_classes: int) -> str:
    if n_classes <= PROVED_CLASSES:
        return ""
    return f"can be too small with more than {PROVED_CLASSES} classes"


def _target_counts(target: str | ArrayLike, sites: list[Site]) -> NDArray[np.int64]:
    if not isinstance(target, str):
        return checks.counts(target, sites[0].n_classes, "target")
    for site in sites:
        if site.name == target:
            return site.label_counts
    raise FedcoverError(
        f"target {target!r} is not a site",
        allowed=f"one of {', '.join(s.name for s in sites[:8])}",
        fix="Give a target from outside by its label counts",
    )


def _largest_weight(ratios: Float64, records: NDArray[np.int64], own: NDArray[np.int64]) -> float:
    """E[max p]: Σ_q P̂*(q) max_y ŵ_y / (Σ_k ŵ_{Y_k} + ŵ_q) over the query label q.

    Ratio weights stand in for the exact ones, which they approach as N grows.
    """
    present = float(ratios[records > 0].max(initial=0.0))
    total = float(records @ ratios) + ratios
    # The query's own weight may be the largest: then its mass at 1 is what the upper bound of eq.
    # (4) allows.
    top = np.maximum(present, ratios)
    weight = np.divide(top, total, out=np.ones_like(total), where=total > 0)
    return float(own @ weight / own.sum())

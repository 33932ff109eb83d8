"""Coverage of weighted sets: Theorems 2.1, 2.2 and 2.4, Lemma 2.3 and equation 11."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError


@dataclass(frozen=True)
class Bound:
    """An error bound as the sum of its named terms, so that one sees what dominates."""

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """The bound itself."""
        return math.fsum(self.terms.values())

    @property
    def dominant(self) -> str:
        """The name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least 1, which says nothing about a probability."""
        return self.total >= 1

    def __float__(self) -> float:
        return self.total

    def __str__(self) -> str:
        parts = sorted(self.terms.items(), key=lambda item: -item[1])
        return f"{self.total:.4g} = " + " + ".join(f"{v:.3g} ({name})" for name, v in parts)


@dataclass(frozen=True)
class CoverageRange:
    """A coverage probability lies in [low, high]."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"


Float64 = NDArray[np.float64]


def theorem_2_1_exact_weights(alpha: float, largest_weight: ArrayLike) -> CoverageRange:
    """Coverage of the sets with exact weights (Theorem 2.1, eq. 4).

    1-α ≤ P(Y ∈ C(X)) ≤ 1-α + E[max_k p_k]. Needs independent records that share P(X|Y); the upper
    bound also needs scores without ties. The weights are `labelshift.exact_weights`.

    Parameters
    ----------
    alpha
        Miscoverage level α.
    largest_weight
        E[max_k p_k], or the largest weights of several draws, which are averaged.
    """
    alpha = checks.real(alpha, "alpha", 0, 1)
    weights = checks.as_float(checks.array(largest_weight, "largest_weight"), "largest_weight")
    if not weights.size or not ((weights > 0) & (weights <= 1)).all():
        raise FedcoverError(
            f"largest_weight is {largest_weight!r}",
            allowed="a number in (0, 1], or several",
            fix="Give the largest of weights that sum to 1",
        )
    return CoverageRange(1 - alpha, min(1.0, 1 - alpha + float(weights.mean())))


def theorem_2_2_subsampled(sizes: ArrayLike, largest_ratio: float) -> Bound:
    """Coverage error |P(Y ∈ C(X)) - (1-α)| with known ratios on a subsample (Theorem 2.2).

    6/N + (36 + 6 log N) ‖w‖²_∞ / N + (14 log N / N) Σ_{i : N^i/12 < log N} √N^i

    Assumes independent records, no ties, π_i = N^i/N and a multinomial subsample of ⌊N/2⌋ records
    (`labelshift.subsample_sizes`). One step of the proof, Hoeffding's inequality for the records
    that small sites lack, leaves out their mean, so the constants are not established; we know of
    no federation that violates the bound.

    Parameters
    ----------
    sizes
        (sites,) numbers of records N^i.
    largest_ratio
        ‖w‖_∞ = max_y P*(y)/P_cal(y), at least 1.
    """
    total, small = _small_sites(sizes)
    ratio = checks.real(largest_ratio, "largest_ratio", 1 - 1e-9, np.inf)
    return Bound(
        {
            "finite sample": 6 / total,
            "largest ratio": (36 + 6 * math.log(total)) * ratio**2 / total,
            "small sites": 14 * math.log(total) / total * small,
        }
    )


def lemma_2_3_shift_distance(target: ArrayLike, ratios: ArrayLike, mixture: ArrayLike) -> float:
    """How far the estimated ratios move the target's label distribution (Lemma 2.3, R of eq. 9).

    R = ½ Σ_y |P*(y) - ŵ_y P_cal(y) / Σ_z ŵ_z P_cal(z)|: the total variation distance between P* and
    the label distribution that the ratios stand for. Coverage changes by at most R. Needs only that
    the ratios do not depend on the calibration data.

    Parameters
    ----------
    target
        (C,) true label distribution P*, or counts.
    ratios
        (C,) ratios ŵ_y in use; their scale does not matter.
    mixture
        (C,) true mixture P_cal.
    """
    p_cal = checks.distribution(mixture, None, "mixture")
    target_shares = checks.distribution(target, len(p_cal), "target")
    w, mean = checked_ratios(ratios, p_cal)
    # Half the sum of absolute differences is total variation, the most by which two distributions
    # can differ on any event, such as "covered". Divided by the mean, so that the scale of ŵ
    # cancels.
    return float(np.abs(target_shares - w * p_cal / mean).sum() / 2)


def equation_11_expected_shift_distance(
    target_count: int, total_count: int, n_classes: int, smallest_share: float
) -> Bound:
    """The paper's bound on E[R] for ratios from label counts (eq. 11).

    6/√M* + 12 √((log|Y| + log M*) / (M min_y P_cal(y)))

    Assumes label counts drawn from P^i, with M^i/M = N^i/N. The appendix states the bound for the
    sum without the factor ½ of R, so half of it would hold, too. But its proof takes
    E Σ_y |P*(y) - P̂*(y)| ≤ 1.4/√M* for any number of classes, where √((|Y|-1)/M*) is right. The
    bound is safe up to 65 classes, because `expected_shift_distance` is smaller there, and half of
    it up to 5. Beyond, it can fail: 1000 equally likely labels, M* = 1000, M = 10⁹ give E[R] = .37
    and a bound of .23.

    Parameters
    ----------
    target_count
        M*, records behind the target's label counts.
    total_count
        M, records behind the label counts of all sites.
    n_classes
        |Y|.
    smallest_share
        Min_y P_cal(y); the bound is infinite if a label never occurs.
    """
    m, spread = _label_counts(target_count, total_count, n_classes, smallest_share)
    logs = math.log(n_classes) + math.log(m)
    return Bound(
        {"target counts": 6 / math.sqrt(m), "pooled counts": 12 * math.sqrt(logs) * spread}
    )


def expected_shift_distance(
    target_count: int, total_count: int, n_classes: int, smallest_share: float
) -> Bound:
    """A bound on E[R] like eq. 11, but sound for any number of classes (not in the paper).

    ½ √((|Y|-1)/M*) + 2/√M* + 3 √((2 log|Y| + log M*) / (M min_y P_cal(y)))

    The paper's proof with E Σ_y |P* - P̂*| ≤ √((|Y|-1)/M*) and its other constants kept instead of
    rounded up. Assumptions and parameters are those of `equation_11_expected_shift_distance`.
    """
    # E|P̂ - P| of one label is at most √(P(1-P)/M*); summed over the labels, by Cauchy and Schwarz,
    # at most √((|Y|-1)/M*).
    m, spread = _label_counts(target_count, total_count, n_classes, smallest_share)
    logs = 2 * math.log(n_classes) + math.log(m)
    return Bound(
        {
            "target counts": (math.sqrt(n_classes - 1) / 2 + 2) / math.sqrt(m),
            "pooled counts": 3 * math.sqrt(logs) * spread,
        }
    )


def theorem_2_4_estimated(
    sizes: ArrayLike, ratios: ArrayLike, mixture: ArrayLike, shift_distance: float
) -> Bound:
    """Coverage error |P(Y ∈ C(X)) - (1-α)| with estimated ratios, the main result (Theorem 2.4).

    R + 6/N + 36 ρ²/N + (2 log N / N) max(3 ρ², 7 Σ_{i : N^i/12 < log N} √N^i)

    with ρ = ‖ŵ‖_∞ / E ŵ_{Y_cal}. Assumptions, and the gap in the proof, as in Theorem 2.2.

    Parameters
    ----------
    sizes
        (sites,) numbers of records N^i.
    ratios
        (C,) ratios ŵ_y.
    mixture
        (C,) P_cal.
    shift_distance
        R of Lemma 2.3, or a bound on it.
    """
    total, small = _small_sites(sizes)
    w, mean = checked_ratios(ratios, checks.distribution(mixture, None, "mixture"))
    rho2 = (float(w.max()) / mean) ** 2
    factor = 2 * math.log(total) / total
    # The theorem has the larger of the two, not the sum: it is booked under the name that wins.
    weights_win = 3 * rho2 >= 7 * small
    return Bound(
        {
            "shift distance": checks.real(shift_distance, "shift_distance", 0, np.inf),
            "finite sample": 6 / total,
            "largest ratio": 36 * rho2 / total + (factor * 3 * rho2 if weights_win else 0.0),
            "small sites": 0.0 if weights_win else factor * 7 * small,
        }
    )


def _small_sites(sizes: ArrayLike) -> tuple[int, float]:
    """N and Σ √N^i over the sites with N^i/12 < log N."""
    n = checks.counts(sizes, None, "sizes").astype(np.float64)
    # The subsample draws N^i/2 records of site i on average; that it asks for more than there are
    # is unlikely, except at sites with fewer than 12 log N records, which enter one by one.
    total = int(n.sum())
    return total, float(np.sqrt(n[n / 12 < math.log(total)]).sum())


def checked_ratios(values: ArrayLike, mixture: Float64) -> tuple[Float64, float]:
    """Checked ratios and their mean under the mixture."""
    w = checks.as_float(checks.array(values, "ratios"), "ratios").astype(np.float64)
    valid = w.shape == mixture.shape and bool((np.isfinite(w) & (w >= 0)).all())
    mean = float(w @ mixture) if valid else 0.0
    if mean <= 0:
        raise FedcoverError(
            f"ratios has shape {w.shape}, or a negative or non-finite entry, or mean 0",
            allowed=f"{len(mixture)} finite numbers ≥ 0, positive for a label of the mixture",
            fix="Make them with labelshift.likelihood_ratio",
        )
    return w, mean


def _label_counts(
    target_count: int, total_count: int, n_classes: int, smallest_share: float
) -> tuple[int, float]:
    """M* and 1/√(M min P_cal)."""
    m = checks.whole(target_count, "target_count", 1)
    total = checks.whole(total_count, "total_count", 1)
    classes = checks.whole(n_classes, "n_classes", 2)
    # The smallest of |Y| shares is at most 1/|Y|: more is a mistake, and would flatter the bound.
    share = checks.real(smallest_share, "smallest_share", 0, 1 / classes * (1 + 1e-9))
    return m, 1 / math.sqrt(total * share) if share > 0 else math.inf

"""Thresholds of one target from the table, for its label mix, with every error that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.classnames import Names, in_order
from fedcover.errors import FedcoverError
from fedcover.labelshift.estimate import guess_mix
from fedcover.methods.base import Fit
from fedcover.methods.sketch.curve import WHOLE_BIN, Mixture, Quantile
from fedcover.methods.sketch.table import SketchTable, label_totals, upper_edges
from fedcover.position import TOP
from fedcover.quantile import rounding_slack

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class LabelMix:
    """A label distribution.

    Attributes
    ----------
    shares
        (C,) shares P*.
    counts
        (C,) whole numbers they were counted from; None if they were given or guessed.
    draws
        (R, C) other shares that are as plausible; None if they were not guessed.
    said
        What a reader should know about a guess.
    """

    shares: Float64
    counts: NDArray[np.int64] | None = None
    draws: Float64 | None = None
    said: str = ""

    @property
    def counted(self) -> int | None:
        """From how many labels it was counted."""
        return None if self.counts is None else int(self.counts.sum())


def mix_of(
    table: SketchTable,
    label_names: Names | None,
    label_counts: ArrayLike | None,
    labels: ArrayLike | None,
    probabilities: ArrayLike | None,
    source: ArrayLike | None,
    known: bool = False,
) -> LabelMix:
    """The label distribution from exactly one of counts, labels and predictions.

    With `known`, counts must be whole numbers, or shares that sum to 1.
    """
    forms = [v is not None for v in (label_counts, labels, probabilities)]
    if sum(forms) != 1:
        raise FedcoverError(
            f"{sum(forms)} of label_counts, labels and probabilities are given",
            allowed="exactly one",
            fix="personalise(label_counts, alpha=0.1), for example",
        )
    n_classes = table.layout.n_classes
    if probabilities is not None:
        return guessed(table, label_names, probabilities, source)
    if source is not None:
        raise FedcoverError(
            "source is given without probabilities",
            allowed="source with probabilities",
            fix="Leave it out: counted labels need none",
        )
    if labels is not None:
        y = checks.labels(labels, n_classes, "labels", None, label_names)
        if not len(y):
            raise FedcoverError(
                "labels is empty", allowed="at least one label", fix="Give label_counts"
            )
        counts = np.bincount(y, minlength=n_classes)
        return LabelMix(checks.distribution(counts, n_classes, "labels"), counts)
    assert label_counts is not None, "one of the three is given"
    return LabelMix(*checks.label_mix(label_counts, n_classes, "label_counts", known=known))


def guessed(
    table: SketchTable,
    label_names: Names | None,
    probabilities: ArrayLike,
    source: ArrayLike | None,
) -> LabelMix:
    """The label mix of unlabelled records, by EM or through the sketch's confusion matrix."""
    n_classes = table.layout.n_classes
    probabilities = in_order(probabilities, label_names, "probabilities", "the sketch's")
    p = checks.probabilities(probabilities, "probabilities")
    if p.shape[1] != n_classes:
        raise FedcoverError(
            f"probabilities has {p.shape[1]} columns",
            allowed=f"one per class: {n_classes}",
            fix="Use outputs of the model whose scores were collected",
        )
    # EM divides the probabilities by the label mix they are meant for. Where the caller does not
    # know it, that of the calibration records is the nearest thing.
    base = label_totals(table) if source is None else source
    pairs = None if table.confusion is None else table.confusion / table.scale
    guess = guess_mix(p, source=base, confusion=pairs, confusion_sd=table.confusion_sd)
    note = f"; label mix guessed from {len(p)} unlabelled records ({guess.method}): {guess.why}"
    # Never counts: a guess has no m, and certificates need labels that were counted.
    return LabelMix(guess.shares, draws=guess.draws, said=note)


BARE = 4.0
"""Deviations of a noisy total below which it may as well be zero."""

LARGE_MIX = 0.03
"""Deviation of the coverage by the own label mix from which a warning is due."""


@dataclass(frozen=True)
class Errors:
    """Standard deviations of a target's coverage, (A,) each, by where they come from.

    Attributes
    ----------
    sampling
        The calibration records are a sample.
    noise
        Privacy noise, on the table and on the label totals.
    bins
        Inside the bin of the threshold nothing is known.
    smoothing
        Rows that noise hides are drawn towards all records.
    mix
        The target's own label distribution was estimated: this is R of eq. (9), as a deviation.
    groups
        Labels that share a row are not alike.
    """

    sampling: Float64
    noise: Float64
    bins: Float64
    smoothing: Float64
    mix: Float64
    groups: Float64

    NAMES: ClassVar[dict[str, str]] = {
        "sampling": "calibration sample",
        "noise": "privacy noise",
        "bins": "score bins",
        "smoothing": "smoothing",
        "mix": "own label mix",
        "groups": "unlike labels in a group",
    }

    @property
    def total(self) -> Float64:
        # Taken as independent of one another: variances add up.
        return np.sqrt(np.sum([np.square(getattr(self, name)) for name in self.NAMES], axis=0))

    def parts(self, a: int) -> dict[str, float]:
        """The parts of one level, by their names in plain words."""
        return {words: float(getattr(self, name)[a]) for name, words in self.NAMES.items()}

    def describe(self, alphas: tuple[float, ...]) -> str:
        """The largest of the levels in plain words."""
        a = int(np.argmax(self.total))
        parts = ", ".join(f"{what} {sd:.3f}" for what, sd in self.parts(a).items() if sd >= 5e-4)
        where = level_named(alphas, a)
        return f"{where}coverage {1 - alphas[a]:g} ± {self.total[a]:.3f} (one deviation: {parts})"


def level_named(alphas: tuple[float, ...], a: int) -> str:
    """Of which level an error is told, where there are several: the one where it is largest."""
    return f"at alpha={alphas[a]:g}, where the error is largest: " if len(alphas) > 1 else ""


@dataclass(frozen=True)
class Personal:
    """A target's thresholds at several levels, and their errors.

    Attributes
    ----------
    table, mix, alphas
        The sketch's table, the target's label mix, the levels.
    """

    table: SketchTable
    mix: LabelMix
    alphas: tuple[float, ...]
    mixed: Mixture = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mixed", Mixture(self.table, self.mix.shares))

    @cached_property
    def quantiles(self) -> tuple[Quantile, ...]:
        """Where the misses reach each level."""
        return tuple(self.mixed.quantile(alpha) for alpha in self.alphas)

    @cached_property
    def errors(self) -> Errors:
        """How far the coverage may be off."""
        levels = list(zip(self.quantiles, self.alphas, strict=True))
        return Errors(
            sampling=np.array([self._sampling(q) for q, _ in levels]),
            # Table and label totals are separate releases: independent noise, squares add.
            noise=np.array([math.hypot(q.noise, self._totals(q)) for q, _ in levels]),
            bins=np.array([self._bins(q, alpha) for q, alpha in levels]),
            smoothing=np.array([q.smoothing for q, _ in levels]),
            mix=np.array([self._own_mix(q) for q, _ in levels]),
            groups=np.array([self._unlike(alpha) for _, alpha in levels]),
        )

    def _sampling(self, q: Quantile) -> float:
        """Records are a sample: √Σ_y c_y² n_y g_y (1 - g_y) with miss rates g."""
        g = q.row_misses
        # Given the labels, a row's misses are a sum of independent events: n_y g_y (1 - g_y).
        return math.sqrt(float(np.sum(q.shares**2 * self.mixed.totals * g * (1 - g))))

    def _bins(self, q: Quantile, alpha: float) -> float:
        """Inside the threshold's bin nothing is known; and a neighbour may have been the right one.

        Between values that many records share the misses jump. Where α is near the level on one
        side of a jump, error may take the wrong side of it, and then all of that value's mass
        counts: as often as normal error is larger than the distance of the level from α.
        """
        from scipy.special import ndtr

        i, error = q.bin, math.hypot(q.noise, self._sampling(q), 1e-12)
        noise = self.table.cell_deviation * float(np.linalg.norm(q.shares))
        mass = max(float(q.cells[i]), 0.0)
        # Beyond five deviations none of two thousand bins is a value only by noise.
        values = np.flatnonzero(q.cells[: i + 1] > WHOLE_BIN + 5 * noise)
        above = values[values < i]
        next_up = float(q.cells[above[-1]]) if len(above) else 0.0
        level_above = float(q.misses[i - 1]) if i else 0.0
        too_high = float(ndtr(-max(float(q.misses[i]) - alpha, 0.0) / error)) * (i in values)
        too_low = float(ndtr(-max(alpha - level_above, 0.0) / error))
        # 1/12 is the variance of a place anywhere in the bin; a whole jump is lost or won with the
        # chance of taking its wrong side.
        return math.sqrt(mass**2 * (1 / 12 + too_high) + next_up**2 * too_low)

    def _totals(self, q: Quantile) -> float:
        """The noise of a divisor n_y moves that row's part of the misses in proportion."""
        return float(np.linalg.norm(q.shares * q.row_misses * self.mixed.total_sds))

    def _own_mix(self, q: Quantile) -> float:
        """√(Var_{P̂} g_y / m) for m counted labels; the spread of the guesses for guessed ones."""
        row = self.table.layout.row_of
        # Every draw is a mix that may be the true one: what it moves the coverage by is the error.
        if self.mix.draws is not None:
            off = (self.mix.draws - self.mix.shares) @ q.row_misses[row]
            return math.sqrt(float(np.mean(off**2)))
        if self.mix.counted is None:
            return 0.0
        # Labels without records have the threshold 1 and no misses: the count is of the others.
        seen = self.mixed.totals > 0
        # The misses of the mix are the mean of g_Y over the m counted labels, whose variance is Var
        # g_Y / m.
        share = self.mixed.weights[seen] / max(float(self.mixed.weights[seen].sum()), 1e-300)
        apart = q.row_misses[seen] - share @ q.row_misses[seen]
        return math.sqrt(float(share @ apart**2) / self.mix.counted)

    def _unlike(self, alpha: float) -> float:
        """How far labels that share a row can move the coverage: |Σ_y d_y g_y| ≤ ‖d/√q‖·sd(g_y).

        d_y is how much more of label y the target has than its row, q_y the label's share of all
        records (Cauchy and Schwarz); shares of mean α have at most the variance α(1-α).
        """
        if self.table.layout.groups is None:
            return 0.0
        row, records = self.table.layout.row_of, np.maximum(self.mixed.records, 1e-300)
        # What the row says is right for a target that has its labels in the pool's proportion.
        inside = records / np.bincount(row, records)[row]
        uneven = self.mix.shares - self.mixed.weights[row] * inside
        reach = math.sqrt(float(np.sum(uneven**2 / records)) * float(records.sum()))
        return math.sqrt(alpha * (1 - alpha)) * reach

    def fit(self) -> Fit:
        """The thresholds with what they rest on."""
        row = self.table.layout.row_of
        shares = np.mean([q.shares for q in self.quantiles], axis=0)[row]
        records = float(self.mixed.totals.sum())
        seen = float(1 - self.mixed.unseen.sum())
        return Fit(
            positions=np.stack([q.positions for q in self.quantiles]),
            ratios=shares * records,
            records=self.mixed.records,
            total=seen * records,
            available=round(records),
            unseen=self.mixed.unseen,
            counted=self.mix.counted,
            coverage_error=self.errors.total,
            error=self.errors.describe(self.alphas) + self.mix.said,
            alarms=self._alarms(),
        )

    def _alarms(self) -> tuple[str, ...]:
        """What the user should do something about."""
        out = []
        kept = min(q.kept for q in self.quantiles)
        if kept < 0.5:
            out.append(
                f"privacy noise hides {1 - kept:.0%} of what sets its label mix apart: its sets "
                "are nearer to those for the average mix; a larger epsilon or more records of its "
                "labels would help"
            )
        bare = (self.mixed.totals <= BARE * self.mixed.total_sds) & (self.mixed.total_sds > 0)
        if (share := float(self.mixed.weights[bare].sum())) > 0.05:
            out.append(
                f"{share:.0%} of its labels have so few records in the sketch that privacy noise "
                "hides them: their scores are not known, and the coverage may be off by as much"
            )
        worst = float(self.errors.mix.max())
        if self.mix.counted is not None and worst > LARGE_MIX:
            out.append(
                f"its label mix rests on {self.mix.counted} counted labels, which alone moves the "
                f"coverage by ± {worst:.3f}; count more labels, or those of a group of similar "
                "sites"
            )
        return tuple(out)


Positions = NDArray[np.int64]

HARDLY = 0.05
"""A share of one of the two below this is taken as none."""

FALSE_ALARMS = 1e-3
"""How often own scores and sketch that agree are said to disagree, by chance."""


def disagreement(levels: int) -> float:
    """Standard deviations from which own scores and sketch disagree, at one of several levels."""
    from scipy.special import ndtri

    # Halved for the two sides, and split over the levels: any of them may raise the alarm.
    return float(-ndtri(FALSE_ALARMS / (2 * levels)))


def _apart(own: float, sketch: float, size: float) -> float:
    """Deviations between two shares, one of which was counted among `size`: by binomial tails.

    The share of a small sample is skewed, and none of it may lie beyond a high level by chance.
    """
    from scipy.special import betainc, ndtri

    count, share = own * size, float(np.clip(sketch, 1e-12, 1 - 1e-12))
    # P(Bin(n, p) ≥ k) = I_p(k, n-k+1), which carries on to a size that is no whole number.
    above = betainc(count, size - count + 1, share) if count > 0 else 1.0
    below = betainc(size - count, count + 1, 1 - share) if count < size else 1.0
    return float(-ndtri(np.clip(min(above, below), 1e-300, 0.5)))


@dataclass(frozen=True)
class Blend:
    """Thresholds from both, (A, C), the share of the own scores in them, (A,), and the error, (A,).

    disagree : how many deviations own scores and sketch are apart, at most; see `disagreement`.
    """

    positions: Positions
    share: Float64
    error: Float64
    disagree: float


def blend(personal: Personal, own: Positions, in_sketch: bool) -> Blend:
    """The distribution function λ F_own + (1-λ) G, with λ by the errors of both.

    Own scores have errors of their own sample alone: α(1-α)/n. Where the label mix was counted from
    the same records, its error is in both, and only the part within labels sets them apart. Records
    that are in the sketch too make the two errors alike: their covariance is α(1-α) Σ_y P*(y) c_y.

    Parameters
    ----------
    personal
        The target's thresholds from the sketch alone.
    own
        (n,) positions of the site's own scores.
    in_sketch
        Whether the own records are in the sketch.
    """
    mixed, errors, row = personal.mixed, personal.errors, personal.table.layout.row_of
    own, n = np.sort(own), len(own)
    edges = upper_edges(personal.table.layout.cut_array)[::-1]
    points = np.unique(np.concatenate([own, edges]))
    f_own = np.searchsorted(own, points, side="right") / n
    common = float(mixed.weights @ mixed.shares) if in_sketch else 0.0
    out, shares, total, apart = [], [], [], 0.0
    for a, (alpha, q) in enumerate(zip(personal.alphas, personal.quantiles, strict=True)):
        # Bins are counted from the top: above the upper edge of bin i lie the misses of i - 1.
        covered = 1 - np.append(0.0, q.misses[:-1])[::-1] - mixed.unseen.sum()
        f_sketch = np.interp(points.astype(np.float64), edges.astype(np.float64), covered)
        shared = errors.mix[a] ** 2 if personal.mix.counted == n else 0.0
        theirs = float(errors.total[a] ** 2 - shared)
        mine = max(alpha * (1 - alpha) / n - shared, 1e-300)
        # No covariance above either variance: λ would leave [0, 1].
        both = min(alpha * (1 - alpha) * common, theirs, mine)
        difference = max(theirs + mine - 2 * both, 1e-300)
        # The λ that minimises λ²·mine + (1-λ)²·theirs + 2λ(1-λ)·both. What both have in common no λ
        # changes: it is left out here and added at the end.
        share = (theirs - both) / difference
        share = 0.0 if share < HARDLY else 1.0 if share > 1 - HARDLY else share
        at = int(np.argmin(np.abs(f_sketch - (1 - alpha))))
        # As many records would know as much as the difference of the two is known.
        worth = min(alpha * (1 - alpha) / difference, 1e15)
        apart = max(apart, _apart(f_own[at], f_sketch[at], worth))
        # The query's own mass at the score 1 (eq. 8): 1/n among own scores, c_y in the sketch.
        level = (1 - alpha) * (1 + share / n + (1 - share) * q.shares[row])
        values = share * f_own + (1 - share) * f_sketch
        # Beyond the last point the level exceeds all mass: the score 1.
        k = np.searchsorted(values, level - rounding_slack(1.0, n))
        out.append(q.positions if share == 0 else np.append(points, TOP)[k])
        shares.append(share)
        squares = share**2 * mine + (1 - share) ** 2 * theirs + 2 * share * (1 - share) * both
        total.append(np.sqrt(squares + shared))
    return Blend(np.array(out), np.array(shares), np.array(total), float(apart))

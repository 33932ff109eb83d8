"""From a fit to a Calibration: thresholds with what they promise, and what a reader should know."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedcover.calibration import Calibration, Cost
from fedcover.classnames import Names
from fedcover.errors import FedcoverWarning
from fedcover.labelshift.weights import effective_size
from fedcover.position import TOP, Positions, distances_at, scores_at
from fedcover.privacy.statement import PrivacyStatement
from fedcover.scores import Score

if TYPE_CHECKING:
    from fedcover.certificate import Certificate

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """Thresholds of one target, with what they rest on.

    Attributes
    ----------
    positions
        (A, C) int64, the thresholds as positions: one row per α, one column per query label.
    ratios
        (C,) weight w_y of a record of each label.
    records
        (C,) calibration records used, by label.
    total
        The sum W of their weights.
    available
        Number of records before any subsampling.
    unseen
        (C,) share of the target's labels that no calibration record has; mostly zeros.
    counted
        How many labels the target's own distribution was counted from; None if it was given.
    error
        How far the coverage may be off, in words, where the method knows.
    alarms
        What the method itself warns of.
    coverage_error
        (A,) one standard deviation of the coverage, where the method knows it.
    certificate
        With which probability the coverage is 1-α or more, if that was asked for.
    own_scores
        Whether raw scores of the target's own records are in its thresholds.
    """

    positions: Positions
    ratios: Float64
    records: NDArray[Any]
    total: float
    available: int
    unseen: Float64
    counted: int | None = None
    error: str = ""
    alarms: tuple[str, ...] = ()
    coverage_error: Float64 | None = None
    certificate: Certificate | None = None
    own_scores: bool = False

    @property
    def thresholds(self) -> Float64:
        """The thresholds as scores, rounded up."""
        return scores_at(self.positions)


class Described(Protocol):
    """What a method says of itself.

    label : how tables call it.
    guarantee : what its sets promise, and under which assumption.
    reveals : what leaves a site, in plain words; shares_scores : whether raw scores do.
    """

    @property
    def label(self) -> str: ...

    @property
    def guarantee(self) -> str: ...

    @property
    def reveals(self) -> str: ...

    @property
    def shares_scores(self) -> bool: ...


@dataclass(frozen=True)
class Provenance:
    """Where a fit comes from: the same for all targets of a run but for the cost.

    Attributes
    ----------
    statement
        What is promised about privacy; None if nothing.
    cost
        Rounds and bytes of the target's sites.
    n_sites
        How many sites took part.
    score, temperature, label_names
        What they agreed on.
    """

    statement: PrivacyStatement | None
    cost: Cost
    n_sites: int
    score: Score | None
    temperature: float
    label_names: Names | None


def calibration_of(
    fit: Fit, target: str, alphas: tuple[float, ...], method: Described, source: Provenance
) -> Calibration:
    """The calibration of one target, for every engine, at the server as at a site.

    What is alarming is warned of, and noted.
    """
    statement, label_names = source.statement, source.label_names
    if statement is not None and fit.own_scores:
        statement = statement.with_own_scores()
    alarms = _alarms(alphas, target, fit, label_names)
    for alarm in alarms:
        warnings.warn(alarm, FedcoverWarning, stacklevel=3)
    limits = nested(alphas, fit.positions)
    levels = f", for each α of {', '.join(f'{a:g}' for a in alphas)}" if len(alphas) > 1 else ""
    if fit.certificate is None:
        promise = "; ".join(t for t in (fit.error, statement.effect if statement else "") if t)
        promise = method.guarantee + levels + (f"; {promise}" if promise else "")
    else:
        promise = (
            f"at least 1-α with probability {fit.certificate.confidence:g} (certificate){levels}"
        )
    return Calibration(
        target=target,
        alpha=alphas,
        thresholds=scores_at(limits),
        distances=distances_at(limits),
        method=method.label,
        options=_options(method),
        guarantee=promise,
        reveals=statement.describe() if statement else method.reveals,
        shares_scores=method.shares_scores,
        ratios=fit.ratios,
        n_records=max(1, round(float(fit.records.sum()))),
        n_sites=source.n_sites,
        effective_size=effective_size(fit.ratios, fit.records),
        cost=source.cost,
        privacy=statement,
        score=source.score,
        temperature=source.temperature,
        label_names=label_names,
        coverage_error=fit.coverage_error,
        certificate=fit.certificate,
        notes=(*alarms, *_remarks(target, fit, label_names)),
    )


def nested(alphas: tuple[float, ...], limits: Positions) -> Positions:
    """Thresholds that never grow with α, so that the sets are nested.

    Exact quantiles are; averaged iterates may cross, and then the larger one counts for both.
    """
    order = np.argsort(alphas)[::-1]
    out = np.empty_like(limits)
    out[order] = np.maximum.accumulate(limits[order], axis=0)
    return out


def _alarms(
    alphas: tuple[float, ...], target: str, fit: Fit, label_names: Names | None
) -> list[str]:
    """Why sets will be larger than they should: labels without records, too few records for α."""
    who = f"target {target!r}: "
    if fit.total <= 0:
        return [
            who + "no calibration record has a label that occurs there: every set will be full; "
            "records with those labels are needed"
        ]
    out = [who + alarm for alarm in fit.alarms]
    if fit.unseen.any():
        which = _names(np.flatnonzero(fit.unseen), label_names)
        out.append(
            who + f"no calibration record has label {which}, {fit.unseen.sum():.1%} of the labels "
            "there: in every set, because nothing is known about it"
        )
    n = fit.records.sum()
    for a, alpha in enumerate(alphas):
        # (1-α)(W + w_y) > W, in units of the average record; then undo the subsampling.
        need = fit.ratios * (n / fit.total) * min((1 - alpha) / alpha, 1e300)
        missing = np.ceil((need - n) * (fit.available / n) - 1e-6)
        full = np.count_nonzero((missing > 0) & (fit.positions[a] >= TOP))
        if full:
            which = "every label" if full == len(need) else f"{full} of {len(need)} labels"
            out.append(
                who
                + f"{fit.available} records are too few for alpha={alpha:g}: {which} will be in "
                f"every set; {missing.max():.6g} more records with the same label mix are needed"
            )
    return out


FEW_LABELS = 20
"""Below this many counted labels a label distribution is hardly known: ±√(p(1-p)/20) ≈ ±.1."""


def _remarks(target: str, fit: Fit, label_names: Names | None) -> list[str]:
    """What a careful reader should know, though nothing is wrong."""
    out = []
    if fit.counted is not None and fit.counted < FEW_LABELS:
        out.append(
            f"target {target!r}: its label mix rests on {fit.counted} counted labels; give "
            "label_counts from more data, or calibrate it in a group of similar sites"
        )
    empty = np.flatnonzero((fit.records == 0) & (fit.unseen == 0))
    if len(empty):
        out.append(
            f"no calibration record has label {_names(empty, label_names)}: "
            "its threshold is that of the other labels"
        )
    return out + _unseen_there(target, fit, label_names)


def _unseen_there(target: str, fit: Fit, label_names: Names | None) -> list[str]:
    """Labels that the sites know and the target's own label mix does not."""
    there = np.flatnonzero((fit.ratios > 0) & (fit.records > 0))
    never = np.flatnonzero((fit.ratios == 0) & (fit.records > 0))
    if not len(there) or not len(never):
        return []
    if len(there) == 1:
        return [
            f"target {target!r}: its label mix is label {_names(there, label_names)} alone, and "
            "so is what it is promised; records of another label may be covered less often"
        ]
    return [
        f"target {target!r}: its label mix has no label {_names(never, label_names)}; nothing is "
        "promised for records of such a label, should one come"
    ]


def _names(labels: NDArray[Any], label_names: Names | None) -> str:
    shown = [str(label_names[y] if label_names else y) for y in labels[:5]]
    return ", ".join(shown) + (", …" if len(labels) > 5 else "")


def _options(method: Described) -> dict[str, Any]:
    """The method's options as plain numbers and words, for the record."""
    values = vars(method) if hasattr(method, "__dict__") else {}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
    return {k: v for k, v in plain.items() if isinstance(v, (int, float, str, bool, type(None)))}

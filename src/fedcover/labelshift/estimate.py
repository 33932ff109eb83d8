"""A target's label distribution from predictions alone, for sites with few or no labels.

Both estimators rest on the label-shift assumption: P(x | y) is the same everywhere.

- "bbse", black-box shift estimation (Lipton, Wang, Smola 2018): how often the model predicts
  each class, un-mixed through its confusion matrix. Needs no calibrated probabilities.
- "em", maximum likelihood (Saerens, Latinne, Decaestecker 2002; Garg et al. 2020): re-weights the
  probabilities until they agree with their own mean. Sharper, but trusts the probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.members import checked_federation
from fedcover.site import Site

Float64 = NDArray[np.float64]

MOST_STEPS = 10_000
"""Steps after which EM gives up, with a warning."""


def confusion(probs: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Counts (C, C) of predicted class × true label; those of several sites add up."""
    p = checks.probabilities(probs)
    y = checks.labels(labels, p.shape[1], n=len(p))
    c = p.shape[1]
    cells = np.bincount(p.argmax(axis=1) * c + y, minlength=c * c)
    return cells.reshape(c, c).astype(np.int64)


def from_unlabelled(
    probs: ArrayLike,
    method: str = "em",
    *,
    source: ArrayLike | None = None,
    confusion: ArrayLike | None = None,
    tolerance: float = 1e-8,
) -> Float64:
    """Label distribution P* of a target, (C,), from its unlabelled predictions.

    Use it as a target: ``fc.calibrate(sites, targets={"clinic": from_unlabelled(...)})``.

    Parameters
    ----------
    probs
        (n, C) predicted probabilities of the target's records.
    method
        "em" (needs `source`) or "bbse" (needs `confusion`).
    source
        (C,) label distribution for which the model's probabilities are right: that of its training
        data.
    confusion
        (C, C) counts of predicted × true label on labelled data, summed over sites.
    tolerance
        "em" stops when no probability moves by more.
    """
    p = checks.probabilities(probs)
    checks.choice(method, "method", ["em", "bbse"])
    tolerance = checks.real(tolerance, "tolerance", 0, 1)
    if method == "em":
        if source is None:
            raise _missing("source", "the label distribution of the training data")
        return _em(p, checks.distribution(source, p.shape[1], "source"), tolerance)
    if confusion is None:
        raise _missing("confusion", "counts from labelshift.confusion, summed over sites")
    return _bbse(p, _confusion_table(confusion, p.shape[1]))


def _em(p: NDArray[np.floating], source: Float64, tolerance: float) -> Float64:
    seen = source > 0
    if not (p[:, seen] > 0).any():
        raise FedcoverError(
            "every record has probability 0 for all labels of source",
            allowed="predictions that the source's labels can explain",
            fix="Check that probs and source number the classes alike",
        )
    # Bayes: p(y|x)/s(y) ∝ P(x|y), all that label shift leaves unchanged at the target.
    likelihood = p[:, seen].astype(np.float64) / source[seen]
    # A factor per record cancels in every step, but could underflow. A record that no label can
    # explain says nothing.
    heard = likelihood.max(axis=1)
    likelihood = likelihood[heard > 0] / heard[heard > 0, None]
    q = source[seen] / source[seen].sum()
    for _ in range(MOST_STEPS):
        # The mean posterior under the present mix: each such step raises the likelihood, which is
        # concave in q, so it ends at the maximum.
        new = q * ((1 / (likelihood @ q)) @ likelihood) / len(likelihood)
        moved = np.abs(new - q).max()
        q = new / new.sum()
        if moved <= tolerance:
            break
    else:
        warnings.warn(
            f"EM has not settled after {MOST_STEPS} steps (last change {moved:.1g}): the records "
            "say little about some labels",
            FedcoverWarning,
            stacklevel=4,
        )
    out = np.zeros(len(source))
    out[seen] = q
    return out


def _bbse(p: NDArray[np.floating], table: Float64) -> Float64:
    """Least squares over distributions: predicted shares = Σ_y P(predicted | y) P*(y)."""
    from scipy.optimize import nnls

    # P(predicted | y) of a label without records is unknown; it gets no share.
    seen = table.sum(axis=0) > 0
    conditional = table[:, seen] / table[:, seen].sum(axis=0)
    predicted = np.bincount(p.argmax(axis=1), minlength=p.shape[1]) / len(p)
    anchor = 1e3  # a heavy row keeps the solution's sum at 1
    left = np.vstack([conditional, np.full(conditional.shape[1], anchor)])
    solution = np.zeros(len(predicted))
    solution[seen] = nnls(left, np.append(predicted, anchor))[0]
    return solution / solution.sum()


def _confusion_table(counts: ArrayLike, n_classes: int) -> Float64:
    table = checks.as_float(checks.array(counts, "confusion"), "confusion").astype(np.float64)
    right = (table >= 0) & (table <= checks.MOST_RECORDS)
    if table.shape != (n_classes, n_classes) or not right.all():
        raise FedcoverError(
            f"confusion has shape {table.shape} or a negative entry",
            allowed=f"a ({n_classes}, {n_classes}) table of counts, predicted × true",
            fix="Make it with labelshift.confusion",
        )
    if table.sum() <= 0:
        raise FedcoverError(
            "confusion is all zero", allowed="counts of labelled records", fix="Add labelled data"
        )
    return table


def _missing(name: str, meaning: str) -> FedcoverError:
    return FedcoverError(f"{name} is missing", allowed=meaning, fix=f"Give {name}=")


def group_sites(sites: Sequence[Site], groups: int) -> dict[str, list[str]]:
    """Put sites into at most `groups` clusters by total-variation distance of their label mixes.

    Returns group name -> names of its sites, ready as ``fc.calibrate(sites, targets=...)``. The
    clustering is agglomerative with average linkage; a group is named after its largest site.
    """
    sites = checked_federation(sites)
    if not 1 <= checks.whole(groups, "groups", 1) <= len(sites):
        raise FedcoverError(
            f"groups is {groups} for {len(sites)} sites",
            allowed=f"a whole number from 1 to {len(sites)}",
            fix="Ask for fewer groups",
        )
    if groups == len(sites):
        return {f"like {s.name}": [s.name] for s in sites}
    from scipy.cluster.hierarchy import fcluster, linkage

    # cityblock is twice the total variation distance, the measure in which R of eq. (9) counts what
    # a wrong mix costs.
    mixes = np.array([s.label_counts / s.label_counts.sum() for s in sites])
    tree = linkage(mixes, method="average", metric="cityblock")
    member = fcluster(tree, t=groups, criterion="maxclust")
    out: dict[str, list[str]] = {}
    for g in np.unique(member):
        inside = [s for s, m in zip(sites, member, strict=True) if m == g]
        largest = max(inside, key=lambda s: int(s.label_counts.sum()))
        out[f"like {largest.name}"] = [s.name for s in inside]
    return out

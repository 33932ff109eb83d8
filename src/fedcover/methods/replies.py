"""What sites sent, read and checked: one may be broken or lie. And the fit of weighted records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.checks import MOST_RECORDS
from fedcover.errors import FedcoverError
from fedcover.fit import Fit
from fedcover.labelshift.weights import likelihood_ratio
from fedcover.methods.base import Float64, Round, Target, Task
from fedcover.position import TOP, Positions
from fedcover.quantile import rounding_slack
from fedcover.site import Site
from fedcover.wire import Message


@dataclass(frozen=True)
class Counts:
    """What the sites counted.

    Attributes
    ----------
    labels
        (sites, C) label counts M, which stand for the label distributions.
    records
        (sites, C) calibration records by label; the label counts where only noisy ones are known.
    sizes
        (sites,) numbers of calibration records N^i.
    """

    labels: NDArray[np.int64]
    records: NDArray[np.int64]
    sizes: NDArray[np.int64]


def counts_reply(site: Site) -> Message:
    """Label counts M^i of a site, and its calibration counts where they are not the same."""
    arrays = {"label_counts": site.label_counts}
    if not np.array_equal(site.label_counts, site.calibration_counts):
        arrays["records"] = site.calibration_counts
    return Message("counts", arrays)


def read_counts(task: Task, replies: Round) -> Counts:
    """The counts of all sites, checked: a site may be broken or lie."""
    labels, records = np.empty((2, len(task.sites), task.n_classes), dtype=np.int64)
    sizes = np.empty(len(task.sites), dtype=np.int64)
    for i, name in enumerate(task.sites):
        reply = reply_of(replies, name)
        sent = reply.arrays
        labels[i] = _whole_counts(task, name, sent.get("label_counts", np.empty(0)))
        records[i] = _whole_counts(task, name, sent["records"]) if "records" in sent else labels[i]
        size = reply.numbers.get("size", int(records[i].sum()))
        if not isinstance(size, (int, np.integer)) or not 1 <= size <= MOST_RECORDS:
            raise FedcoverError(
                f"site {name!r} answered with a size that cannot be",
                allowed="a whole number of at least 1",
                fix="Check that site's data, or leave it out",
            )
        sizes[i] = size
    return Counts(labels, records, sizes)


def _whole_counts(task: Task, site: str, c: NDArray[Any]) -> NDArray[Any]:
    valid = c.shape == (task.n_classes,) and c.dtype.kind in "iu"
    if not valid or not ((c >= 0) & (c <= MOST_RECORDS)).all() or not c.any():
        raise FedcoverError(
            f"site {site!r} answered with label counts that cannot be",
            allowed=f"{task.n_classes} whole numbers ≥ 0, at least one positive",
            fix="Check that site's data, or leave it out",
        )
    return c


def reply_of(replies: Round, site: str) -> Message:
    """The reply of one site; an error that names it where there is none."""
    if site not in replies:
        raise FedcoverError(
            f"site {site!r} did not answer",
            allowed="an answer of every site that was asked",
            fix="Start it and run again, or leave it out",
        )
    return replies[site]


def read_array(
    replies: Round, site: str, key: str, shape: tuple[int, ...], least: float = -np.inf
) -> Float64:
    """A float array of a reply, checked: right shape, finite, not below `least`."""
    array = reply_of(replies, site).arrays.get(key, np.empty(0))
    valid = array.shape == shape and array.dtype == np.float64 and np.isfinite(array).all()
    if not valid or (array < least).any():
        raise FedcoverError(
            f"site {site!r} answered {key!r} with something that cannot be",
            allowed=f"finite numbers of shape {shape}",
            fix="Check that site's data, or leave it out",
        )
    return array


def read_positions(replies: Round, site: str, key: str, shape: tuple[int, ...]) -> Positions:
    """An array of positions of a reply, checked."""
    array = reply_of(replies, site).arrays.get(key, np.empty(0))
    valid = array.shape == shape and array.dtype == np.int64
    if not valid or (array < 0).any() or (array > TOP).any():
        raise FedcoverError(
            f"site {site!r} answered {key!r} with something that cannot be",
            allowed=f"positions of scores, of shape {shape}",
            fix="Check that site's data, or leave it out",
        )
    return array


def target_counts(task: Task, target: Target, counts: NDArray[Any]) -> NDArray[Any]:
    """A target's label distribution as given, or the label counts of its member sites."""
    if target.distribution is not None:
        return target.distribution
    member = [task.sites.index(name) for name in target.members]
    return counts[member].sum(axis=0)


def target_ratios(task: Task, counts: Counts, sizes: NDArray[np.int64] | None) -> Float64:
    """ŵ of every target, (targets, C): eq. (7) with calibration sizes, eq. (10) without."""
    target_labels = [target_counts(task, target, counts.labels) for target in task.targets]
    return np.array([likelihood_ratio(counts.labels, w, sizes) for w in target_labels])


def weighted_fit(
    task: Task,
    target: Target,
    thresholds: Positions,
    ratios: Float64,
    total: float,
    counts: Counts,
    used: NDArray[np.int64],
) -> Fit:
    """A fit of weighted records; labels about which they say nothing go into every set.

    Those are labels that the target has but no calibration record (eq. 10 gives them weight 0, so
    their share would silently be missing from the coverage), and labels whose level exceeds the
    weight of all records, where the quantile is the point mass at 1.
    """
    target_labels = target_counts(task, target, counts.labels)
    share = target_labels / target_labels.sum()
    by_label = counts.records.sum(axis=0)
    unseen = np.where(by_label == 0, share, 0.0)
    keep = 1 - np.asarray(task.alphas)[:, None]
    slack = rounding_slack(total, int(used.sum()))
    # In every set: a label whose level (eq. 8) exceeds the weight of all records by more than
    # rounding, one that no record has, and all of them where nothing has weight.
    full = (keep * (total + ratios) > total + slack) | (unseen > 0) | (total <= 0)
    return Fit(
        positions=np.where(full, TOP, thresholds),
        ratios=ratios,
        # Which labels a subsample has is not known here: all are scaled alike.
        records=by_label * (used.sum() / by_label.sum()),
        total=total,
        available=int(counts.sizes.sum()),
        unseen=unseen,
        counted=None if target.distribution is not None else int(target_labels.sum()),
    )


def estimated_guarantee(subsample: bool) -> str:
    """What sets with estimated label distributions promise."""
    proof = (
        "Theorem 2.4, if the label counts come from other data"
        if subsample
        else "measured; Theorem 2.4 proves it with subsample=True and label counts from other data"
    )
    return (
        "1-α up to the error of the estimated label distributions, if records of one label look "
        f"alike at all sites ({proof})"
    )

"""Neighbouring data sets: a federation, one that differs by a unit, and one by a group of records.

Only the first site differs. The changed record has the top score, where a table of sums moves most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.privacy.statement import Privacy
from fedcover.site import Site

Sites = list[Site]

SITE_RECORDS = 5
"""Records of the site that is exchanged, where the method sets no limit."""


@dataclass(frozen=True)
class Change:
    """A record that is replaced, or under add-remove one that is there or not.

    Attributes
    ----------
    what
        What is changed, in words.
    before, after
        Score and label of the record; -1 is the last label.
    """

    what: str
    before: tuple[float, int]
    after: tuple[float, int]


CHANGES = (
    Change("another label", (1.0, -1), (1.0, 0)),
    Change("another score", (0.0, 0), (1.0, 0)),
)
"""What is tried where nothing is known of a method: a label, or a score from end to end."""


@dataclass(frozen=True)
class DataSets:
    """Three federations of the same sites.

    Attributes
    ----------
    one, other
        They differ by one unit: a record or a site.
    group
        It differs from `one` by `records` of them.
    records
        How many.
    """

    one: Sites
    other: Sites
    group: Sites
    records: int


def alone(
    names: tuple[str, ...],
    labels: int,
    privacy: Privacy,
    change: Change,
    records: int,
    common: int,
    most: int | None = None,
) -> DataSets:
    """The data sets of a run that is made by itself.

    Parameters
    ----------
    names, labels
        Sites and number of labels.
    privacy
        Unit and relation.
    change, records
        The record that changes, and how many change in the group.
    common
        Records of every site that are in all data sets, spread over scores and labels.
    most
        Limit of records per site, if the method has one.
    """
    score = (np.arange(common) + 0.5) / max(common, 1)
    label = np.arange(common) % labels
    if privacy.unit == "site":
        if privacy.relation != "replace":
            raise FedcoverError(
                "an audit of unit='site' under add-remove",
                allowed="unit='site' under replace",
                fix="A site that is not there cannot be run; audit the exchange of one",
            )
        # All of the site's records are exchanged; others in it would only take their places.
        score, label = score[:0], label[:0]
        # Twice as many as the limit lets through: one that is not kept to shows.
        records = 2 * (most or SITE_RECORDS)
    elif most is not None and privacy.relation == "add-remove":
        # The limit is reached: an added record then drives out another, two cells move.
        score, label = np.full(most, change.before[0]), np.full(most, change.before[1] % labels)
    elif most is not None:
        score, label, records = score[:0], label[:0], min(records, most)

    def first(before: int, after: int) -> Site:
        kinds = [change.before] * before + [change.after] * after
        scores = np.append(score, [k[0] for k in kinds])
        numbers = np.append(label, [k[1] % labels for k in kinds]).astype(np.int64)
        return _site(names[0], scores, numbers, labels)

    every = np.arange(max(common, 1))
    others = [_site(n, (every + 0.5) / len(every), every % labels, labels) for n in names[1:]]
    if privacy.unit == "site":
        kinds = [(records, 0), (0, records), (0, records)]
        records = 1
    elif privacy.relation == "add-remove":
        kinds = [(0, 0), (0, 1), (0, records)]
    else:
        kinds = [(records, 0), (records - 1, 1), (0, records)]
    one, other, group = ([first(*k), *others] for k in kinds)
    return DataSets(one, other, group, records)


def side_by_side(names: tuple[str, ...], runs: int, privacy: Privacy, records: int) -> DataSets:
    """The data sets of many runs in one: run j has the labels 2j and 2j + 1 for itself."""
    even, labels = np.arange(0, 2 * runs, 2), 2 * runs

    def first(*parts: NDArray[np.int64]) -> Site:
        numbers = np.concatenate(parts)
        return _site(names[0], np.ones(len(numbers)), numbers, labels)

    others = [_site(n, np.ones(labels), np.arange(labels), labels) for n in names[1:]]
    if privacy.relation == "add-remove":
        # No site is empty: every run has a record of its second label in all data sets.
        kinds = [(even + 1,), (even + 1, even), (even + 1, np.repeat(even, records))]
    else:
        kinds = [
            (np.repeat(even + 1, records),),
            (np.repeat(even + 1, records - 1), even),
            (np.repeat(even, records),),
        ]
    one, other, group = ([first(*k), *others] for k in kinds)
    return DataSets(one, other, group, records)


def _site(name: str, scores: NDArray[np.float64], labels: NDArray[np.int64], n: int) -> Site:
    # What the model predicted is right: a changed label then changes a cell of a confusion matrix.
    return Site(name, scores, labels, n_classes=n, predictions=labels)

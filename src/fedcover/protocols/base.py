"""What a protocol is: a server half that asks, a site half that answers, and no sockets in between.

The server half is a generator. It yields a round, ``{site name: query}``, and receives
``{site name: reply}``; it returns what the server publishes. The site half is a pure function of
the query and the site. Every query carries all it needs, so a site that restarts between two rounds
answers just the same. Engines carry the messages and count them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedcover.checks import MOST_RECORDS
from fedcover.errors import FedcoverError
from fedcover.labelshift.ratios import likelihood_ratio
from fedcover.site import Site

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Message:
    """A query or a reply: a kind, named arrays, named numbers. Nothing else ever travels."""

    kind: str
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Payload in bytes: the arrays, and 8 for each number."""
        return sum(a.nbytes for a in self.arrays.values()) + 8 * len(self.numbers)


Round = Mapping[str, Message]


@dataclass(frozen=True)
class Target:
    """Whose label distribution the sets are for.

    members : sites whose label counts add up to the target's (one site, or a group).
    distribution : (C,) label distribution, where it was given instead.
    """

    name: str
    members: tuple[str, ...] = ()
    distribution: Float64 | None = None


@dataclass(frozen=True)
class Task:
    """What everybody may know before the first message."""

    sites: tuple[str, ...]
    n_classes: int
    alphas: tuple[float, ...]
    targets: tuple[Target, ...]
    seed: int | None = None


@dataclass(frozen=True)
class Fit:
    """Thresholds of one target, with what they rest on.

    thresholds : (A, C), one row per α, one column per query label.
    ratios : (C,) weight w_y of a record of each label.
    mixture : (C,) calibration label mixture.
    n_records : number of records used; total : the sum W of their weights.
    """

    thresholds: Float64
    ratios: Float64
    mixture: Float64
    n_records: int
    total: float


Published = Mapping[str, Fit]
ServerHalf = Generator[Round, Round, Published]


class Method(Protocol):
    """A calibration method: a frozen object that holds its options.

    label : how tables call it.
    guarantee : what its sets promise, and under which assumption.
    reveals : what leaves a site, in plain words; shares_scores : whether raw scores do.
    most_rounds : at most how many rounds it takes, for progress bars.
    """

    @property
    def label(self) -> str: ...

    @property
    def guarantee(self) -> str: ...

    @property
    def reveals(self) -> str: ...

    @property
    def shares_scores(self) -> bool: ...

    @property
    def most_rounds(self) -> int: ...

    def server(self, task: Task) -> ServerHalf:
        """The server half; returns the published fits by target name."""
        ...

    def answer(self, query: Message, site: Site) -> Message:
        """The site half."""
        ...

    def conclude(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        """The last step, at the target's own site (None if the target is not one site)."""
        ...


class AtServer:
    """For methods whose server publishes every target's fit: a site just takes its own."""

    def conclude(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        return published[target.name]


def ask_all(task: Task, query: Message) -> Round:
    """The same query to every site."""
    return dict.fromkeys(task.sites, query)


def counts_reply(site: Site) -> Message:
    """Label counts M^i and calibration size N^i of a site."""
    return Message("counts", {"label_counts": site.label_counts}, {"size": len(site)})


def read_counts(task: Task, replies: Round) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Label counts (sites, C) and sizes (sites,), checked: a site may be broken or lie."""
    counts = np.empty((len(task.sites), task.n_classes), dtype=np.int64)
    sizes = np.empty(len(task.sites), dtype=np.int64)
    for i, name in enumerate(task.sites):
        c = replies[name].arrays.get("label_counts", np.empty(0))
        n = replies[name].numbers.get("size", 0)
        good = c.shape == (task.n_classes,) and c.dtype.kind in "iu"
        good = good and bool(((c >= 0) & (c <= MOST_RECORDS)).all() and c.any())
        if not good or not isinstance(n, (int, np.integer)) or not 1 <= n <= MOST_RECORDS:
            raise FedcoverError(
                f"site {name!r} answered with label counts that cannot be",
                allowed=f"{task.n_classes} whole numbers ≥ 0 and a positive size",
                fix="Check that site's data, or leave it out",
            )
        counts[i], sizes[i] = c, n
    return counts, sizes


def read_array(
    replies: Round, site: str, key: str, shape: tuple[int, ...], least: float = -np.inf
) -> Float64:
    """A float array of a reply, checked: right shape, finite, not below `least`."""
    array = replies[site].arrays.get(key, np.empty(0))
    good = array.shape == shape and array.dtype == np.float64 and np.isfinite(array).all()
    if not good or (array < least).any():
        raise FedcoverError(
            f"site {site!r} answered {key!r} with something that cannot be",
            allowed=f"finite numbers of shape {shape}",
            fix="Check that site's data, or leave it out",
        )
    return array


def target_distribution(task: Task, target: Target, counts: NDArray[Any]) -> NDArray[Any]:
    """A target's label distribution or counts: as given, or the sum over its member sites."""
    if target.distribution is not None:
        return target.distribution
    member = [task.sites.index(name) for name in target.members]
    return counts[member].sum(axis=0)


def target_ratios(task: Task, counts: NDArray[Any], sizes: NDArray[np.int64] | None) -> Float64:
    """ŵ of every target, (targets, C): eq. (7) with calibration sizes, eq. (10) without."""
    wanted = [target_distribution(task, target, counts) for target in task.targets]
    return np.array([likelihood_ratio(counts, w, sizes) for w in wanted])

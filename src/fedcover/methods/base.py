"""What a protocol is: a server half that asks, a site half that answers, and no sockets in between.

The server half is a generator. It yields a round, ``{site name: query}``, and receives
``{site name: reply}``; it returns what the server publishes. The site half is a pure function of
the query, the site and the bytes that its noise takes. Every query carries all it needs, so a site
that restarts between two rounds answers just the same. Engines carry the messages and count them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.checks import MOST_RECORDS
from fedcover.errors import FedcoverError
from fedcover.fit import Fit as Fit
from fedcover.labelshift.weights import likelihood_ratio
from fedcover.position import TOP, Positions
from fedcover.privacy.events import Event, ExactRelease
from fedcover.privacy.randomness import SYSTEM, Randomness, SeededBytes
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.quantile import rounding_slack
from fedcover.scores import Score
from fedcover.site import Site
from fedcover.wire import Message as Message

if TYPE_CHECKING:
    pass

Float64 = NDArray[np.float64]


Round = Mapping[str, Message]


@dataclass(frozen=True)
class SecureSum:
    """A round whose integer replies only ever meet as a sum.

    The sum comes back under the name "sum", and with it the array "present": which of the task's
    sites, by number, are in it.

    queries : the same query to every site; shapes : the arrays of a reply, shape by name.
    """

    queries: Round
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Target:
    """Whose label distribution the sets are for.

    members : sites whose label counts add up to the target's (one site, or a group).
    distribution : (C,) label distribution, where it was given instead.
    counts : (C,) whole numbers that the distribution was given as, if it was.
    """

    name: str
    members: tuple[str, ...] = ()
    distribution: Float64 | None = None
    counts: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Task:
    """What everybody may know before the first message.

    sites, n_classes, score : who takes part, with how many labels, and the score all use.
    alphas, targets : levels and targets; none for a method that needs them only afterwards.
    seed : of subsampling and of the choice of participants; privacy : the budget of the run.
    sizes : numbers of calibration records, in the order of the sites, where they are public.
    fewest : the fewest sites that may be left in a secure sum; all of them unless said.
    certify : probability with which the coverage is to be at least 1-α; None for no certificate.
    source : where noise takes its bytes.
    """

    sites: tuple[str, ...]
    n_classes: int
    alphas: tuple[float, ...] = ()
    targets: tuple[Target, ...] = ()
    seed: int | None = None
    privacy: Privacy | None = None
    score: Score | None = None
    sizes: tuple[int, ...] | None = None
    fewest: int | None = None
    certify: float | None = None
    source: Randomness = field(default=SYSTEM, compare=False, repr=False)

    @property
    def records(self) -> int | None:
        """Calibration records of all sites, where that is public."""
        return None if self.sizes is None else sum(self.sizes)

    @property
    def noisy(self) -> int:
        """Sites whose noise is in every secure sum."""
        return len(self.sites) if self.fewest is None else self.fewest

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed, and so protects nobody."""
        return isinstance(self.source, SeededBytes)


Published = Any
"""What a method's server publishes; only the method's own `finalise` reads it."""

ServerHalf = Generator[Round | SecureSum, Round, Published]


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

    def answer(self, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        """The site half; its noise takes its bytes from the source."""
        ...

    def statement(self, task: Task) -> PrivacyStatement | None:
        """What the run promises about privacy; None if nothing. Refuses what it cannot promise."""
        ...

    def charges(self, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        """What answering a query costs a site, for its ledger."""
        ...

    def finalise(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        """The last step, at the target's own site (None if the target is not one site)."""
        ...


class ServerMethod:
    """For methods whose server publishes every target's fit: a site just takes its own.

    Without more, such a method promises no privacy.
    """

    def statement(self, task: Task) -> PrivacyStatement | None:
        if task.privacy is not None:
            raise FedcoverError(
                f"privacy with method {getattr(self, 'label', type(self).__name__)}",
                allowed="privacy with Sketch(), DPFedCP(), or Local(), where nothing leaves a site",
                fix="Change the method, or leave privacy out",
            )
        return None

    def charges(self, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        return (ExactRelease(query.kind),)

    def finalise(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        return published[target.name]


def under_budget(method: Method, privacy: Privacy | None) -> Method:
    """What runs when a method is asked for with a privacy budget: itself, unless it says more."""
    if privacy is None or not hasattr(method, "with_budget"):
        return method
    private: Method = method.with_budget()
    return private


def checked_certify(certify: float | None, method: Method) -> float | None:
    """A probability for a method that can promise it."""
    if certify is None:
        return None
    checks.real(certify, "certify", 0, 1, open_low=True)
    if certify >= 1:
        raise FedcoverError(
            f"certify is {certify:g}",
            allowed="a probability between 0 and 1",
            fix="certify=0.95, for example",
        )
    if not getattr(method, "certifies", False):
        raise FedcoverError(
            f"certify with method {method.label}",
            allowed="Sketch(), with or without privacy, and Local()",
            fix="Leave method out, or write method=fedcover.methods.Sketch()",
        )
    return certify


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


def fits_a_sum(values: NDArray[Any], sites: int) -> bool:
    """Whether so many sites can send such numbers without a sum that leaves 64 bits."""
    most = (1 << 62) // max(1, sites)
    return bool((values <= most).all() and (values >= -most).all())


def ask_all(task: Task, query: Message) -> Round:
    """The same query to every site."""
    return dict.fromkeys(task.sites, query)


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
    good = c.shape == (task.n_classes,) and c.dtype.kind in "iu"
    if not good or not ((c >= 0) & (c <= MOST_RECORDS)).all() or not c.any():
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
    good = array.shape == shape and array.dtype == np.float64 and np.isfinite(array).all()
    if not good or (array < least).any():
        raise FedcoverError(
            f"site {site!r} answered {key!r} with something that cannot be",
            allowed=f"finite numbers of shape {shape}",
            fix="Check that site's data, or leave it out",
        )
    return array


def read_positions(replies: Round, site: str, key: str, shape: tuple[int, ...]) -> Positions:
    """An array of positions of a reply, checked."""
    array = reply_of(replies, site).arrays.get(key, np.empty(0))
    good = array.shape == shape and array.dtype == np.int64
    if not good or (array < 0).any() or (array > TOP).any():
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
    wanted = [target_counts(task, target, counts.labels) for target in task.targets]
    return np.array([likelihood_ratio(counts.labels, w, sizes) for w in wanted])


def weighted_fit(
    task: Task,
    target: Target,
    found: Positions,
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
    wanted = target_counts(task, target, counts.labels)
    share = wanted / wanted.sum()
    by_label = counts.records.sum(axis=0)
    unseen = np.where(by_label == 0, share, 0.0)
    keep = 1 - np.asarray(task.alphas)[:, None]
    slack = rounding_slack(total, int(used.sum()))
    full = (keep * (total + ratios) > total + slack) | (unseen > 0) | (total <= 0)
    return Fit(
        positions=np.where(full, TOP, found),
        ratios=ratios,
        records=by_label * (used.sum() / by_label.sum()),
        total=total,
        available=int(counts.sizes.sum()),
        unseen=unseen,
        counted=None if target.distribution is not None else int(wanted.sum()),
    )

"""What a method is: a server half that asks, a site half that answers, and no sockets in between.

The server half is a generator. It yields a round, ``{site name: query}``, and receives
``{site name: reply}``; it returns what the server publishes. The site half is a pure function of
the query, the site and the bytes that its noise takes. Every query carries all it needs, so a site
that restarts between two rounds answers just the same. Engines carry the messages and count them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.fit import Described
from fedcover.fit import Fit as Fit
from fedcover.members import Federation
from fedcover.privacy.events import Event, ExactRelease
from fedcover.privacy.randomness import SYSTEM, Randomness, SeededBytes
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.scores import Score
from fedcover.site import Site
from fedcover.wire import Message as Message
from fedcover.wire import Round as Round

Float64 = NDArray[np.float64]


Parts = Mapping[str, NDArray[Any]]
"""Arrays of one site's reply, by name."""


@dataclass(frozen=True)
class SumRound:
    """A round of which the server needs nothing but the sum over the sites, in whole numbers.

    The method does not say how the sum is made: an engine adds the replies up, or has the sites
    mask them so that only the sum can be read. It comes back under the name "sum", and with it the
    array "present": which of the task's sites, by number, are in it.

    Attributes
    ----------
    queries
        The same query to every site.
    shapes
        The arrays of a reply, shape by name.
    read
        The arrays of a site's reply, checked; asked only where replies are seen one by one.
    """

    queries: Round
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str, Message], Parts] = lambda site, reply: reply.arrays


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
    min_survivors : the fewest sites that may be left in a secure sum; all of them unless said.
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
    min_survivors: int | None = None
    certify: float | None = None
    source: Randomness = field(default=SYSTEM, compare=False, repr=False)

    @classmethod
    def of(cls, federation: Federation, privacy: Privacy | None, **more: Any) -> Task:
        """The task of some sites; `more` are fields that no site decides."""
        return cls(
            sites=federation.sites,
            n_classes=federation.n_classes,
            privacy=privacy,
            score=federation.score,
            sizes=federation.sizes,
            min_survivors=federation.min_survivors,
            **more,
        )

    @property
    def records(self) -> int | None:
        """Calibration records of all sites, where that is public."""
        return None if self.sizes is None else sum(self.sizes)

    @property
    def noise_sites(self) -> int:
        """Sites whose noise is in every secure sum."""
        return len(self.sites) if self.min_survivors is None else self.min_survivors

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed, and so protects nobody."""
        return isinstance(self.source, SeededBytes)


Published = Any
"""What a method's server publishes; only the method's own `finalise` reads it."""

ServerHalf = Generator[Round | SumRound, Round, Published]


class Method(Described, Protocol):
    """A calibration method: a frozen object that holds its options.

    most_rounds : at most how many rounds it takes, for progress bars; 0 if nothing is sent.
    noise_at_server : optional; true where the server draws noise, so that no run can be repeated.
    """

    @property
    def most_rounds(self) -> int: ...

    def server(self, task: Task) -> ServerHalf:
        """The server half; returns the published fits by target name."""
        ...

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        """The site half. It needs none of the options: a query carries all that it needs."""
        ...

    def statement(self, task: Task) -> PrivacyStatement | None:
        """What the run promises about privacy; None if nothing. Refuses what it cannot promise."""
        ...

    @classmethod
    def charges(cls, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
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
                allowed=f"privacy with {those_that('private')}",
                fix="Change the method, or leave privacy out",
            )
        return None

    @classmethod
    def charges(cls, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        return (ExactRelease(query.kind),)

    def finalise(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        return published[target.name]


def those_that(can: str) -> str:
    """The methods of the one list that can do something, such as "private", for errors."""
    from fedcover.methods import registry  # which is made of methods

    return ", ".join(f"{e.method.__name__}()" for e in registry.entries() if getattr(e, can))


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
            allowed=those_that("certifies"),
            fix="Leave method out, or write method=fedcover.methods.Sketch()",
        )
    return certify


def fits_a_sum(values: NDArray[Any], sites: int) -> bool:
    """Whether so many sites can send such numbers without a sum that leaves 64 bits."""
    most = (1 << 62) // max(1, sites)
    return bool((values <= most).all() and (values >= -most).all())


def ask_all(task: Task, query: Message) -> Round:
    """The same query to every site."""
    return dict.fromkeys(task.sites, query)

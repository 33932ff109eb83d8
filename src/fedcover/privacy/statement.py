"""What is promised about privacy: asked for as `Privacy`, stated in full as `PrivacyStatement`."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy import accounting
from fedcover.privacy.events import Event
from fedcover.results import html_table

SEEDED = "its noise came from a seed: for experiments only, no privacy holds"
"""What is said of noise that somebody can repeat."""

OWN_SCORES = "own records: a threshold can be the raw score of one of them"
"""What is said of thresholds that own scores went into, at the site itself."""

OWN_MIX = (
    "the label distribution of a site, from which its thresholds are made at the site itself: they "
    "depend on it without noise"
)
"""What is said of thresholds that are made of a published table, at the site itself."""

RUN, LEDGER, REPORTED = "run", "ledger", "reported"
"""On whose word a statement stands: that of the process that made the run; that of a site's own
ledger, for its own records; or that of a coordinator elsewhere, which nobody here has checked."""

UNITS, RELATIONS, VIEWS = ("record", "site"), ("replace", "add-remove"), ("server", "secure-sum")

KIND = ("unit", "relation", "view", "conspirators")
"""What must be the same in two budgets that are added up."""


@dataclass(frozen=True)
class Privacy:
    """A budget of differential privacy, and what it is about.

    Attributes
    ----------
    epsilon, delta
        The budget of one run, everything it releases included.
    unit
        What is protected: one "record", or all data of one "site".
    relation
        Neighbouring data sets differ by one unit that is "replace"d, or by one that is there or
        not ("add-remove").
    view
        Whom it holds against: a "server" that sees each site's messages, or one that sees only a
        "secure-sum" of them. The server view is the stronger promise and needs more noise.
    conspirators
        c, how many other sites may tell who sees the sum all they know: their shares of the noise
        count for nothing. 0 only holds against a server with which no site conspires. In the server
        view each site adds all of the noise, and any number may.
    """

    epsilon: float
    delta: float
    unit: str = "record"
    relation: str = "replace"
    view: str = "server"
    conspirators: int = 1

    def __post_init__(self) -> None:
        least = type(self) is Privacy  # a request must leave room for noise; a statement may be 0
        checks.real(self.epsilon, "epsilon", 0, float("inf"), open_low=least)
        checks.real(self.delta, "delta", 0, 0.5, open_low=True)
        checks.choice(self.unit, "unit", UNITS)
        checks.choice(self.relation, "relation", RELATIONS)
        checks.choice(self.view, "view", VIEWS)
        checks.whole(self.conspirators, "conspirators", 0)
        if self.conspirators != 1 and not self.secure_sum:
            raise FedcoverError(
                f"conspirators is {self.conspirators} with view='server'",
                allowed="conspirators with view='secure-sum'",
                fix="Leave it out: in the server view each site adds all of its noise itself, and "
                "any number of the others may conspire",
            )

    @property
    def secure_sum(self) -> bool:
        """Whether who looks sees the sites only as a sum: the one place where the view is asked."""
        return self.view == "secure-sum"

    def to_facts(self) -> dict[str, Any]:
        """As plain facts, which travel. The usual one conspirator stays unsaid: versions that knew
        no other number read it.
        """
        facts = {f.name: getattr(self, f.name) for f in fields(Privacy)}
        if self.conspirators == 1:
            del facts["conspirators"]
        return facts


@dataclass(frozen=True)
class PrivacyStatement(Privacy):
    """What holds for a run: ε of all that was released, and what is not covered.

    Attributes
    ----------
    events
        Everything that was released with noise.
    public
        Data-dependent facts that travelled without noise because they are taken as public.
    effect
        What the noise does to the coverage.
    home
        What goes into the thresholds at the site itself, without noise; they are then not covered.
    word
        On whose word it stands: "run", "ledger" or "reported".
    reported
        Beside the word of a site's own ledger: what the coordinator says of all sites.
    """

    events: tuple[Event, ...] = ()
    public: tuple[str, ...] = ()
    effect: str = ""
    home: str = ""
    word: str = RUN
    reported: PrivacyStatement | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice(self.word, "word", (RUN, LEDGER, REPORTED))

    def __repr__(self) -> str:
        times = sum(getattr(event, "count", 1) for event in self.events)
        against = f", conspirators={self.conspirators}" if self.secure_sum else ""
        return (
            f"PrivacyStatement(epsilon={_rounded_up(self.epsilon)}, delta={self.delta:g}, "
            f"unit={self.unit!r}, relation={self.relation!r}, view={self.view!r}"
            f"{against}, {times} release{'s' * (times != 1)})"
        )

    def _repr_html_(self) -> str:
        facts = {"unit": self.unit, "relation": self.relation, "view": self.view}
        return html_table("PrivacyStatement", {"what holds": self.describe(), **facts})

    def with_seeded_noise(self) -> PrivacyStatement:
        """The same where the noise came from a seed, which nothing that follows can mend."""
        if SEEDED in self.effect:
            return self
        return replace(self, effect="; ".join(t for t in (self.effect, SEEDED) if t))

    def with_own_scores(self) -> PrivacyStatement:
        """The same where own records set the thresholds: ε covers what left the site, not them."""
        return self._with_home(OWN_SCORES)

    def with_own_mix(self) -> PrivacyStatement:
        """The same where thresholds are made with the label mix of the site, at the site."""
        return self._with_home(OWN_MIX)

    def _with_home(self, what: str) -> PrivacyStatement:
        if what in self.home:
            return self
        return replace(self, home="; ".join(t for t in (self.home, what) if t))

    def describe(self) -> str:
        """The statement in plain words, with what is not protected, and on whose word it stands."""
        if self.word == REPORTED:
            return (
                "Reported by the coordinator; no ledger of this site bears it out: " + self._claim()
            )
        if self.reported is None:
            return self._claim()
        theirs = (
            "The coordinator reports that nothing that depends on data has left any site (ε = 0)."
            if not self.reported.events
            else "Of the other sites' records the coordinator reports "
            f"(ε = {_rounded_up(self.reported.epsilon)}, δ = {self.reported.delta:g}) for "
            f"{_units(self.reported)}."
        )
        return (
            f"This site's own records, by its own ledger: {self._claim()} {theirs} This site "
            "cannot check that."
        )

    def _claim(self) -> str:
        """The statement itself."""
        who = "a server that sees every message of every site"
        if self.secure_sum:
            who = _who_sees_sums(self.conspirators)
        if not self.events:
            return (
                "Nothing that depends on the data left a site (ε = 0). Not protected: the "
                "thresholds themselves, which are the score of one record; do not publish them."
            )
        taken = f" Taken as public: {', '.join(self.public)}." if self.public else ""
        epsilon = _rounded_up(self.epsilon)
        seers = "" if self.home else ", and anyone who sees the thresholds"
        kept = f"{self.home} (do not publish them), " if self.home else ""
        no_claim = ""
        if SEEDED in self.effect:
            no_claim = f"I{SEEDED[1:]}. With bytes of the operating system it would be "
        return (
            f"{no_claim}(ε = {epsilon}, δ = {self.delta:g})-differentially private against "
            f"{who}{seers}: {_units(self)} changes the probability of anything they see by at "
            f"most a factor e^ε, up to δ.{taken} Not protected: {kept}that a site takes part, what "
            "several records of one person reveal together, what other runs on the same data add"
            f"{'' if self.word == LEDGER else UNCHARGED}."
        )


UNCHARGED = (
    ", and anything of a site that allows exact answers and keeps no ledger, if the server asks it "
    "for less noise than agreed"
)


def _units(privacy: Privacy) -> str:
    """What changes between neighbouring data sets."""
    change = "replacing" if privacy.relation == "replace" else "adding or removing"
    return f"{change} {'one record' if privacy.unit == 'record' else 'all data of one site'}"


def _who_sees_sums(conspirators: int) -> str:
    """Against whom noise holds that comes from all sites together."""
    if conspirators == 0:
        return (
            "a server that sees the sites' scores only as sums over all sites, and with which no "
            "site conspires (not against a site, which knows its own share of the noise)"
        )
    shares = "one site's share" if conspirators == 1 else f"{conspirators} sites' shares"
    return (
        "a server or a site that sees the others' scores only as sums over all sites, and knows no "
        f"more than {shares} of the noise"
    )


def _rounded_up(epsilon: float) -> str:
    """Four digits, never less than the value."""
    return f"{math.ceil(epsilon * 1e4 - 1e-4) / 1e4:g}"


def compose_sequential(
    earlier: PrivacyStatement | None, statement: PrivacyStatement | None
) -> PrivacyStatement | None:
    """The statement of a renewed sketch: whoever has both knows both, so both are spent."""
    if earlier is None or statement is None:
        raise FedcoverError(
            "a sketch without privacy was collected from the same data, or is to be",
            allowed="privacy in both",
            fix="Without privacy there is no budget to add: leave previous out",
        )
    _same_kind(earlier, statement, "previous has {what} {mine!r}")
    delta = max(earlier.delta, statement.delta)
    events = (*earlier.events, *statement.events)
    both = replace(statement, events=events, delta=delta, epsilon=accounting.epsilon(events, delta))
    return both.with_seeded_noise() if SEEDED in earlier.effect else both


def compose_parallel(
    one: PrivacyStatement | None, two: PrivacyStatement | None
) -> PrivacyStatement | None:
    """What holds for a record that is in one of two disjoint collections: the weaker promise."""
    if one is None or two is None:
        if one is two:
            return None
        raise FedcoverError(
            "one of the two sketches has no privacy",
            allowed="privacy in both, or in none",
            fix="The sum would promise less than one of them did",
        )
    _same_kind(one, two, "the two sketches differ in privacy.{what}")
    delta = max(one.delta, two.delta)
    weaker = max(one, two, key=lambda s: (accounting.epsilon(s.events, delta), repr(s.events)))
    public = tuple(sorted({*one.public, *two.public}))
    epsilon = accounting.epsilon(weaker.events, delta)
    both = replace(weaker, delta=delta, epsilon=epsilon, public=public)
    return both.with_seeded_noise() if SEEDED in one.effect + two.effect else both


def _same_kind(one: PrivacyStatement, two: PrivacyStatement, given: str) -> None:
    """Budgets of different kinds do not add up."""
    for what in KIND:
        mine = getattr(one, what)
        if mine != getattr(two, what):
            raise FedcoverError(
                given.format(what=what, mine=mine),
                allowed=f"the same {what} in both",
                fix="Collect the second as the first: budgets of different kinds do not add up",
            )

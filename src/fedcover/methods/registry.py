"""The one list of methods: under which name, with which class, and what sites are asked under it.

Command line, site policies, run configurations, audits and the tables of the documentation read
this list. A method from elsewhere joins it with `register`, on every machine that takes part.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.methods.base import Method
from fedcover.methods.dp_fedcp.method import DPFedCP
from fedcover.methods.exponential import ExponentialMechanism
from fedcover.methods.pooled import EstimatedWeights, OracleWeights, Pooled
from fedcover.methods.site_quantiles import Local, QuantileAverage, QuantileOfQuantiles
from fedcover.methods.sketch.method import Sketch
from fedcover.methods.tdigest import TDigest


@dataclass(frozen=True)
class Entry:
    """A method as everything else knows it.

    Attributes
    ----------
    name
        What people call it in commands, policies and run configurations.
    method
        Its class: a frozen dataclass whose fields are the options.
    queries
        Kinds of queries that a site answers under it.
    usual
        Whether a site takes part unless told otherwise. No raw score may leave a site under it.
    private
        Whether it keeps a budget, `fedcover.Privacy`.
    only_in_studies
        Why nobody can use it on real sites; empty if they can.
    leaves
        What leaves a site, in a few words, for tables.
    """

    name: str
    method: type[Any]
    queries: tuple[str, ...]
    usual: bool = False
    private: bool = False
    only_in_studies: str = ""
    leaves: str = "what its own description says"

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the method, by name."""
        return tuple(f.name for f in fields(self.method) if f.init)

    @property
    def label(self) -> str:
        """How tables call it."""
        return str(self.method.label)

    @property
    def shares_scores(self) -> bool:
        """Whether raw scores leave a site."""
        return bool(self.method.shares_scores)

    @property
    def certifies(self) -> bool:
        """Whether its coverage can be certified."""
        return bool(getattr(self.method, "certifies", False))


_ENTRIES: dict[str, Entry] = {}


def register(entry: Entry) -> None:
    """Adds a method to the list; each name and each class stands there once."""
    if not isinstance(entry, Entry):
        raise FedcoverError(
            f"a {type(entry).__name__} is to be registered",
            allowed="a fedcover.methods.Entry",
            fix="Write register(Entry('my-method', MyMethod, queries=('my-query',)))",
        )
    good = isinstance(entry.name, str) and entry.name.replace("-", "").isalnum()
    if not good or entry.name != entry.name.lower():
        raise FedcoverError(
            f"a method is to be called {entry.name!r}",
            allowed="small letters, digits and '-'",
            fix="Choose a name like those of the others: " + ", ".join(_ENTRIES),
        )
    taken = [e.name for e in _ENTRIES.values() if entry.name == e.name or entry.method is e.method]
    if taken:
        raise FedcoverError(
            f"method {entry.name!r} of class {entry.method.__name__} is there already",
            allowed="each name and each class once",
            fix="Choose another name, or remove the first with unregister",
        )
    if entry.usual and entry.method.shares_scores:
        raise FedcoverError(
            f"method {entry.name!r} with usual=True, and it sends raw scores",
            allowed="usual=True where no raw score leaves a site",
            fix="Leave usual out: sites that want it name it in their policy",
        )
    _ENTRIES[entry.name] = entry


def unregister(name: str) -> None:
    """Takes a method off the list."""
    named(name)
    del _ENTRIES[name]


def entries(studies: bool = False) -> tuple[Entry, ...]:
    """The methods in order; with `studies` also those that only a simulation can run."""
    return tuple(e for e in _ENTRIES.values() if studies or not e.only_in_studies)


def names(studies: bool = False) -> tuple[str, ...]:
    """Their names."""
    return tuple(e.name for e in entries(studies))


def usual_names() -> tuple[str, ...]:
    """The methods that a site takes part in unless told otherwise."""
    return tuple(e.name for e in entries() if e.usual)


def classes() -> dict[str, type[Any]]:
    """Class by name, of the methods that real sites can use."""
    return {e.name: e.method for e in entries()}


def named(name: str) -> Entry:
    """The method of a name; for those that only studies can use, why."""
    entry = _ENTRIES.get(name) if isinstance(name, str) else None
    if entry is None:
        checks.choice(name, "method", list(names()))
        raise AssertionError("checks.choice refuses what is not in the list")
    return entry


def for_real_sites(name: str) -> Entry:
    """The method of a name, refused where only a study could run it."""
    entry = named(name)
    if entry.only_in_studies:
        raise FedcoverError(
            f"method {name!r} on real sites: {entry.only_in_studies}",
            allowed=", ".join(names()),
            fix="Choose another, or run a study in process",
        )
    return entry


def entry_of(method: Method) -> Entry:
    """The entry of a method's class, or of the nearest class that it is derived from."""
    by_class = {e.method: e for e in _ENTRIES.values()}
    for kind in type(method).__mro__:
        if kind in by_class:
            return by_class[kind]
    raise FedcoverError(
        f"method {getattr(method, 'label', type(method).__name__)} is not registered",
        allowed="registered methods: " + ", ".join(_ENTRIES),
        fix="Register it on every machine: fedcover.methods.register(Entry(...))",
    )


SCORES = "raw scores and labels"

_OWN = (
    Entry(
        "sketch",
        Sketch,
        ("sketch",),
        usual=True,
        private=True,
        leaves="counts: one label × score table",
    ),
    Entry(
        "dp-fedcp",
        DPFedCP,
        ("counts", "mass", "totals", "steps"),
        usual=True,
        private=True,
        leaves="counts: by label, and weighted below query points; with a budget as sketch",
    ),
    Entry("local", Local, (), usual=True, private=True, leaves="nothing"),
    Entry("pooled", Pooled, ("scores",), leaves=SCORES),
    Entry("estimated-weights", EstimatedWeights, ("scores",), leaves=SCORES),
    Entry(
        "oracle-weights",
        OracleWeights,
        ("scores",),
        only_in_studies="it needs the true label distributions, which only a study knows",
        leaves=SCORES,
    ),
    Entry(
        "quantile-average",
        QuantileAverage,
        ("own-quantiles",),
        leaves="one score for each α, number of records",
    ),
    Entry("t-digest", TDigest, ("t-digest",), leaves="clusters of scores; raw scores where few"),
    Entry(
        "quantile-of-quantiles",
        QuantileOfQuantiles,
        ("ranked-scores",),
        leaves="one score for each α, number of records",
    ),
    Entry(
        "exponential-mechanism",
        ExponentialMechanism,
        ("scores",),
        leaves=f"{SCORES}, to a server that must be trusted",
    ),
)
for _entry in _OWN:
    register(_entry)


def added() -> tuple[Entry, ...]:
    """The methods that came from elsewhere: another process has to register them, too."""
    return tuple(e for e in _ENTRIES.values() if e not in _OWN)

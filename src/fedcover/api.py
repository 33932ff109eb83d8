"""`calibrate`: from sites to one Calibration per target. `collect`: to one sketch for all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike

from fedcover import checks
from fedcover.calibration import Calibration, Cost
from fedcover.engines.base import Engine, Publication
from fedcover.engines.inprocess import InProcess
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.fit import Provenance, calibration_of
from fedcover.members import Federation, in_one_order
from fedcover.methods import DPFedCP, Local, Sketch, registry
from fedcover.methods.base import Method, ServerMethod, Target, Task, checked_certify, under_budget
from fedcover.methods.sketch import plan
from fedcover.methods.sketch.result import SketchResult
from fedcover.privacy.statement import Privacy, PrivacyStatement, compose_sequential
from fedcover.site import Site, checked_name

Targets = Sequence[str] | Mapping[str, Sequence[str] | ArrayLike] | str | None


def calibrate(
    sites: Sequence[Site] | None = None,
    alpha: float | Sequence[float] = 0.1,
    method: Method | str | None = None,
    targets: Targets = None,
    privacy: Privacy | None = None,
    engine: Engine | None = None,
    seed: int | None = None,
    certify: float | None = None,
    **foreign: Never,
) -> dict[str, Calibration]:
    """Calibrate prediction sets for the label distribution of every target.

    Parameters
    ----------
    sites
        The sites that take part; None where they are elsewhere, and the engine knows them.
    alpha
        Miscoverage level α, or several.
    method
        One of `fedcover.methods`, or its name, such as "local" (`fedcover methods` lists them);
        default DPFedCP(). "auto" takes the sketch or DP-FedCP, by predicted error and cost, and
        notes why.
    targets
        Whose label distribution the sets are for. None: every site. A name or list of names: those
        sites. A dictionary: a new name for a group of sites, ``{"north": ["a", "b"]}``, or for
        label counts or probabilities, ``{"clinic": [10, 0, 3]}``.
    privacy
        The budget of the run, for methods that keep one: `fedcover methods` lists them. None
        for no differential privacy.
    engine
        What carries the messages; default in-process.
    seed
        Seed of the subsampling and of the choice of participants.
    certify
        Probability, such as .95, with which the coverage at each target is to be at least 1-α; for
        Sketch(), which is then the default, and Local().

    Returns
    -------
    Calibration by target name. Of sites that are elsewhere, those that the server can make; every
    site makes its own.
    """
    checks.refuse_foreign("calibrate", foreign)
    alphas = checks.asked_alphas(alpha)
    engine = _checked(method, privacy, engine, seed)
    if method is None:
        method = DPFedCP() if certify is None else Sketch()
    method = _named(method)
    chosen = None if isinstance(method, str) else under_budget(method, privacy)
    sites = None if sites is None else in_one_order(sites)
    if engine.elsewhere and isinstance(chosen, Sketch):
        raise FedcoverError(
            "method Sketch for sites that are elsewhere"
            + ("" if chosen is method else ", as which DP-FedCP runs under a budget"),
            allowed="fedcover.collect with this engine: every site personalises the sketch at home",
            fix="Use collect, or another method",
        )
    federation = engine.meet(sites, chosen, privacy)
    wanted = _targets(targets, federation, certify is not None)
    task = Task.of(
        federation, privacy, seed=seed, alphas=alphas, targets=wanted, source=engine.source
    )
    why = ""
    if chosen is None:
        chosen, why = choose_method(task, engine)
        if certify is not None and not getattr(chosen, "certifies", False):
            chosen, why = Sketch(), "Sketch: its coverage can be certified"
        chosen = under_budget(chosen, privacy)
    task = replace(task, certify=checked_certify(certify, chosen))
    statement = chosen.statement(task)  # refuses what cannot be promised, before anything is sent
    outcome = engine.run(chosen, task, sites)
    by_name = {s.name: s for s in sites or ()}
    out = {}
    for target in task.targets:
        own = by_name.get(target.members[0]) if len(target.members) == 1 else None
        if sites is None and not isinstance(chosen, ServerMethod):
            continue  # only the site itself can take the last step
        fit = chosen.finalise(task, outcome.published, target, own)
        cost = outcome.traffic.cost(target.members or task.sites)
        cal = calibration_of(fit, target.name, alphas, chosen, _source(federation, statement, cost))
        more = (*federation.notes, *[why] * bool(why))
        out[target.name] = replace(cal, notes=(*cal.notes, *more))
    cost = outcome.traffic.cost(task.sites)
    engine.finish(Publication(chosen, task, outcome.published, statement, cost))
    return out


def collect(
    sites: Sequence[Site] | None = None,
    method: Sketch | str | None = None,
    privacy: Privacy | None = None,
    engine: Engine | None = None,
    *,
    previous: SketchResult | None = None,
    seed: int | None = None,
    **foreign: Never,
) -> SketchResult:
    """Collect one label × score table from all sites; each personalises it at home afterwards.

    Parameters
    ----------
    sites
        The sites that take part; others can use the result, or join later. None where they are
        elsewhere, and the engine knows them.
    method
        A `fedcover.methods.Sketch`, or "sketch"; default Sketch().
    privacy
        The budget of the collection; None for no differential privacy.
    engine
        What carries the messages; default in-process.
    previous
        An earlier sketch of these data that this one renews: what it has spent is added to the
        statement, because both are known.
    seed
        Accepted for symmetry with `calibrate`; a sketch makes no seeded choice.

    Returns
    -------
    SketchResult, whose `personalise` gives the calibration of a site for any α without a message.
    """
    if foreign.keys() & {"alpha", "certify"}:
        raise FedcoverError(
            f"{next(iter(foreign))} is given to collect",
            allowed="a sketch, which serves every level",
            fix="Give it to sketch.personalise",
        )
    checks.refuse_foreign("collect", foreign)
    method = Sketch() if method is None else _named(method)
    if not isinstance(method, Sketch):
        raise FedcoverError(
            f"method is {method!r}",
            allowed="an object fedcover.methods.Sketch(...)",
            fix="Other methods need the targets at once: use fedcover.calibrate",
        )
    engine = _checked(method, privacy, engine, seed)
    sites = None if sites is None else in_one_order(sites)
    if previous is not None and not isinstance(previous, SketchResult):
        raise FedcoverError(
            f"previous is a {type(previous).__name__}",
            allowed="a SketchResult, or None",
            fix="Load it with fedcover.SketchResult.load",
        )
    federation = engine.meet(sites, method, privacy)
    for note in federation.notes:
        warnings.warn(note, FedcoverWarning, stacklevel=2)
    task = Task.of(federation, privacy, seed=seed, source=engine.source)
    statement = method.statement(task)
    if previous is not None:
        if not set(previous.sites) & set(task.sites):
            raise FedcoverError(
                "previous has none of these sites",
                allowed="an earlier sketch of the same sites",
                fix="Leave previous out, and add the two sketches",
            )
        statement = compose_sequential(previous.privacy, statement)
    outcome = engine.run(method, task, sites)
    sketch = SketchResult(
        table=outcome.published,
        most_per_site=method.most_per_site,
        privacy=statement,
        cost=outcome.traffic.cost(task.sites),
        score=federation.score,
        temperature=federation.temperature,
        label_names=federation.label_names,
    )
    engine.finish(Publication(method, task, sketch, statement, sketch.cost))
    return sketch


def _checked(
    method: Any, privacy: Privacy | None, engine: Engine | None, seed: int | None
) -> Engine:
    """What every run is given, checked before anything is sent; the engine."""
    good = method is None or isinstance(method, str) or hasattr(method, "server")
    if not good or isinstance(method, type):
        raise FedcoverError(
            f"method is {method!r}",
            allowed="an object from fedcover.methods, or its name",
            fix=f"Write method=fedcover.methods.{getattr(method, '__name__', 'DPFedCP')}(), with "
            "brackets",
        )
    if privacy is not None and type(privacy) is not Privacy:
        raise FedcoverError(
            f"privacy is {privacy!r}",
            allowed="None, or fedcover.Privacy(epsilon, delta, ...)",
            fix="Write privacy=fedcover.Privacy(epsilon=2, delta=1e-5), for example",
        )
    if engine is not None and not isinstance(engine, Engine):
        raise FedcoverError(
            f"engine is {engine!r}",
            allowed="None, or an object from fedcover.engines",
            fix="Write engine=fedcover.engines.InProcess(), with brackets",
        )
    if seed is not None:
        checks.whole(seed, "seed", 0, np.inf)
    return engine or InProcess()


def _named(method: Any) -> Any:
    """The method of a name, in any case and with "_" for "-"; "auto" stays a word."""
    if not isinstance(method, str):
        return method
    name = method.lower().replace("_", "-")
    if name == "auto":
        return name
    kinds = {e.name: e.method for e in registry.entries(studies=True)}
    by_class = {kind.__name__.lower(): kind for kind in kinds.values()}
    kind = kinds.get(name) or by_class.get(name.replace("-", ""))
    if kind is None:
        raise FedcoverError(
            f"method is {method!r}",
            allowed=", ".join((*kinds, "auto")),
            fix=checks.nearest(name, [*kinds, "auto"]),
        )
    try:
        return kind()
    except TypeError:
        raise FedcoverError(
            f"method is {method!r}, which needs options",
            allowed=f"an object fedcover.methods.{kind.__name__}(...)",
            fix="Make it with its options",
        ) from None


def _source(federation: Federation, statement: PrivacyStatement | None, cost: Cost) -> Provenance:
    """Where the calibrations of a run come from."""
    return Provenance(
        statement,
        cost,
        len(federation.sites),
        federation.score,
        federation.temperature,
        federation.label_names,
    )


def _targets(given: Targets, federation: Federation, certify: bool) -> tuple[Target, ...]:
    known = list(federation.sites)
    if given is None:
        given = known
    if isinstance(given, str):
        given = [given]
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = given.tolist()
    if not isinstance(given, (Sequence, Mapping)):
        raise FedcoverError(
            f"targets is {given!r}",
            allowed="a site's name, a list of names, or a dictionary",
            fix="Leave it out for every site",
        )
    if not len(given):
        raise FedcoverError("targets is empty", allowed="at least one", fix="Leave it out for all")
    if not isinstance(given, Mapping):
        for name in given:
            checked_name(name, "target name")
        if len(set(given)) < len(given):
            raise FedcoverError(
                f"targets {list(given)} repeat a name", allowed="each once", fix="Remove repeats"
            )
        given = {name: [name] for name in given}
    n_classes = federation.n_classes
    return tuple(_target(n, value, known, n_classes, certify) for n, value in given.items())


def _target(name: str, value: Any, known: list[str], n_classes: int, certify: bool) -> Target:
    checked_name(name, "target name")
    if isinstance(value, str):
        members = [value]
    else:
        members = list(value) if isinstance(value, (list, tuple)) else []
    if not members or not all(isinstance(m, str) for m in members):
        wanted = checks.label_mix(value, n_classes, f"target {name!r}", known=certify)
        return Target(name, (), *wanted)
    for m in members:
        if m not in known:
            raise FedcoverError(
                f"target {m!r} is not a site",
                allowed=f"a site ({', '.join(known[:8])}{', …' if len(known) > 8 else ''})",
                fix="Give a target from outside by its label counts: targets={'name': counts}",
            )
    if len(set(members)) < len(members):
        raise FedcoverError(
            f"target {name!r} names a site twice", allowed="each site once", fix="Remove repeats"
        )
    return Target(name, members=tuple(members))


MANY_CELLS = 1 << 22
"""Cells of an exact table beyond which a few rounds of sums are cheaper to send."""


def choose_method(task: Task, engine: Engine) -> tuple[Method, str]:
    """The method, and why."""
    fast = getattr(engine, "seconds_per_round", 0.0) < 0.5
    pairs = len(task.targets) * len(task.alphas)
    if any(t.distribution is None and len(t.members) != 1 for t in task.targets):
        return (
            DPFedCP(),
            "DP-FedCP: a target is a group of sites, whose counts the sketch keeps home",
        )
    if task.privacy is None:
        if task.n_classes * 1024 > MANY_CELLS and fast:
            return DPFedCP(), (
                f"DP-FedCP: a table of {task.n_classes} labels is larger than its rounds, and "
                "rounds are cheap here"
            )
        if fast and pairs == 1:
            return DPFedCP(), "DP-FedCP: one target and level, and rounds are cheap here"
        return Sketch(), (
            f"Sketch: one round for {pairs} pairs of target and level, each less than 1e-3 above "
            "the exact quantile"
        )
    return _with_budget(task, task.privacy)


def _with_budget(task: Task, privacy: Privacy) -> tuple[Method, str]:
    """The sketch, or every site alone where that is predicted to be nearer; by public numbers.

    How a target's labels are mixed is not public: the sketch's error is between that of an even mix
    and that of a single label with an even share of the records.
    """
    if task.sizes is None:
        return Sketch(), "Sketch: one round; numbers of records are not public, nothing to predict"
    alpha, records, labels = max(task.alphas), sum(task.sizes), task.n_classes
    layout = Sketch().layout(task)
    noise = plan.predicted_deviation(privacy, layout, task.noise_sites, records, None)
    sample = math.sqrt(alpha * (1 - alpha) / records)
    even, single = math.hypot(noise, sample), math.sqrt(labels) * math.hypot(noise, sample)
    own = dict(zip(task.sites, task.sizes, strict=True))
    fewest = min(own.get(t.members[0], 0) if t.members else 0 for t in task.targets)
    alone = math.sqrt(alpha * (1 - alpha) / fewest) if fewest else math.inf
    said = (
        f"predicted deviation of the coverage at α={alpha:g} and ε={privacy.epsilon:g}: sketch ± "
        f"{even:.3f} for an even label mix, up to ± {single:.3f} for a single label"
    )
    if alone < even:
        return Local(), f"Local: {said}; the smallest target alone ± {alone:.3f}"
    return Sketch(), f"Sketch: {said}"

"""`calibrate`: from sites to one Calibration per target."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.calibration import Calibration, Cost
from fedcover.engines.base import Engine, Traffic
from fedcover.engines.inprocess import InProcess
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.labelshift.ratios import effective_size
from fedcover.methods import DPFedCP
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.protocols.base import Fit, Float64, Method, Target, Task
from fedcover.site import Site, checked_federation, checked_name

Targets = Sequence[str] | Mapping[str, Sequence[str] | ArrayLike] | str | None


def calibrate(
    sites: Sequence[Site],
    alpha: float | Sequence[float] = 0.1,
    method: Method | None = None,
    targets: Targets = None,
    privacy: Privacy | None = None,
    engine: Engine | None = None,
    seed: int | None = None,
) -> dict[str, Calibration]:
    """Calibrate prediction sets for the label distribution of every target.

    Parameters
    ----------
    sites
        The sites that take part.
    alpha
        Miscoverage level α, or several.
    method
        One of `fedcover.methods`; default DPFedCP().
    targets
        Whose label distribution the sets are for. None: every site. A name or list of names: those
        sites. A dictionary: a new name for a group of sites, ``{"north": ["a", "b"]}``, or for
        label counts or probabilities, ``{"clinic": [10, 0, 3]}``.
    privacy
        The budget of the run, for DPFedCP() or Local(); None for no differential privacy.
    engine
        What carries the messages; default in-process.
    seed
        Seed of the subsampling and of the choice of participants.

    Returns
    -------
    Calibration by target name.
    """
    alphas = checks.alphas(alpha)
    method = DPFedCP() if method is None else method
    if not hasattr(method, "server") or isinstance(method, type):
        raise FedcoverError(
            f"method is {method!r}",
            allowed="an object from fedcover.methods",
            fix="Write method=fedcover.methods.DPFedCP(), with brackets",
        )
    if privacy is not None and type(privacy) is not Privacy:
        raise FedcoverError(
            f"privacy is {privacy!r}",
            allowed="None, or fedcover.Privacy(epsilon, delta, ...)",
            fix="Write privacy=fedcover.Privacy(epsilon=2, delta=1e-5), for example",
        )
    if engine is not None and (not hasattr(engine, "run") or isinstance(engine, type)):
        raise FedcoverError(
            f"engine is {engine!r}",
            allowed="None, or an object from fedcover.engines",
            fix="Write engine=fedcover.engines.InProcess(), with brackets",
        )
    if seed is not None:
        checks.whole(seed, "seed", 0, np.inf)
    sites = checked_federation(sites)
    first = sites[0]
    task = Task(
        sites=tuple(s.name for s in sites),
        n_classes=first.n_classes,
        alphas=alphas,
        targets=_targets(targets, sites),
        seed=seed,
        privacy=privacy,
    )
    statement = method.statement(task)  # refuses what cannot be promised, before anything is sent
    published, traffic = (engine or InProcess()).run(method, task, sites)
    by_name = {s.name: s for s in sites}
    out = {}
    for target in task.targets:
        own = by_name.get(target.members[0]) if len(target.members) == 1 else None
        fit = method.conclude(task, published, target, own)
        out[target.name] = _calibration(task, target, fit, method, traffic, sites, statement)
    return out


def _targets(given: Targets, sites: list[Site]) -> tuple[Target, ...]:
    known = [s.name for s in sites]
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
    return tuple(_target(name, value, known, sites[0].n_classes) for name, value in given.items())


def _target(name: str, value: Any, known: list[str], n_classes: int) -> Target:
    checked_name(name, "target name")
    if isinstance(value, str):
        members = [value]
    else:
        members = list(value) if isinstance(value, (list, tuple)) else []
    if not members or not all(isinstance(m, str) for m in members):
        wanted = checks.distribution(value, n_classes, f"target {name!r}")
        return Target(name, distribution=wanted)
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


def _calibration(
    task: Task,
    target: Target,
    fit: Fit,
    method: Method,
    traffic: Traffic,
    sites: list[Site],
    statement: PrivacyStatement | None,
) -> Calibration:
    first = sites[0]
    label_names = next((s.label_names for s in sites if s.label_names), None)
    alarms = _alarms(task, target, fit, label_names)
    for alarm in alarms:
        warnings.warn(alarm, FedcoverWarning, stacklevel=3)
    members = target.members or task.sites
    return Calibration(
        target=target.name,
        alpha=task.alphas,
        thresholds=_nested(task.alphas, fit.thresholds),
        method=method.label,
        options=_options(method),
        guarantee=method.guarantee + (f"; {statement.effect}" if statement else ""),
        reveals=statement.words() if statement else method.reveals,
        shares_scores=method.shares_scores,
        ratios=fit.ratios,
        n_records=round(float(fit.records.sum())),
        n_sites=len(sites),
        effective_size=effective_size(fit.ratios, fit.records),
        cost=Cost(
            rounds=traffic.rounds,
            bytes_up=round(sum(traffic.bytes_up[m] for m in members) / len(members)),
            bytes_down=round(sum(traffic.bytes_down[m] for m in members) / len(members)),
        ),
        privacy=statement,
        score=first.score,
        temperature=first.temperature,
        label_names=label_names,
        notes=(*alarms, *_remarks(target, fit, label_names)),
    )


def _nested(alphas: tuple[float, ...], thresholds: Float64) -> Float64:
    """Thresholds that never grow with α, so that the sets are nested.

    Exact quantiles are; averaged iterates may cross, and then the larger one counts for both.
    """
    order = np.argsort(alphas)[::-1]
    out = np.empty_like(thresholds)
    out[order] = np.maximum.accumulate(thresholds[order], axis=0)
    return out


def _alarms(task: Task, target: Target, fit: Fit, label_names: tuple[str, ...] | None) -> list[str]:
    """Why sets will be larger than they should: labels without records, too few records for α."""
    who = f"target {target.name!r}: "
    if fit.total <= 0:
        return [
            who + "no calibration record has a label that occurs there: every set will be full; "
            "records with those labels are needed"
        ]
    out = []
    if fit.unseen.any():
        which = _names(np.flatnonzero(fit.unseen), label_names)
        out.append(
            who + f"no calibration record has label {which}, {fit.unseen.sum():.1%} of the labels "
            "there: in every set, because nothing is known about it"
        )
    if fit.blurred > 0.5:
        out.append(
            who
            + f"privacy noise hides {fit.blurred:.0%} of what sets its label mix apart: its sets "
            "are nearer to those for the average mix; a larger epsilon, more counted labels, a "
            "group of similar sites or public_counts=True would help"
        )
    n = fit.records.sum()
    for a, alpha in enumerate(task.alphas):
        # (1-α)(W + w_y) > W, in units of the average record; then undo the subsampling.
        need = fit.ratios * (n / fit.total) * min((1 - alpha) / alpha, 1e300)
        missing = np.ceil((need - n) * (fit.available / n) - 1e-6)
        full = np.count_nonzero((missing > 0) & (fit.thresholds[a] >= 1))
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


def _remarks(target: Target, fit: Fit, label_names: tuple[str, ...] | None) -> list[str]:
    """What a careful reader should know, though nothing is wrong."""
    out = []
    if fit.counted is not None and fit.counted < FEW_LABELS:
        out.append(
            f"target {target.name!r}: its label mix rests on {fit.counted} counted labels; give "
            "label_counts from more data, or calibrate it in a group of similar sites"
        )
    empty = np.flatnonzero((fit.records == 0) & (fit.unseen == 0))
    if len(empty):
        out.append(
            f"no calibration record has label {_names(empty, label_names)}: "
            "its threshold is that of the other labels"
        )
    return out


def _names(labels: NDArray[np.intp], label_names: tuple[str, ...] | None) -> str:
    shown = [label_names[y] if label_names else str(y) for y in labels[:5]]
    return ", ".join(shown) + (", …" if len(labels) > 5 else "")


def _options(method: Method) -> dict[str, Any]:
    """The method's options as plain numbers and words, for the record."""
    values = vars(method) if hasattr(method, "__dict__") else {}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
    return {k: v for k, v in plain.items() if isinstance(v, (int, float, str, bool, type(None)))}

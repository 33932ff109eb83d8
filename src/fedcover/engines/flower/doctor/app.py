"""A run, from the app's settings: whether they make sense, and whether a site would accept them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcover.engines.flower.doctor.findings import (
    Findings,
    private,
    readable,
    shown_key,
    writable_folder,
)
from fedcover.engines.flower.doctor.site import SiteUnderTest
from fedcover.engines.flower.run_config import Run
from fedcover.engines.inprocess import InProcess
from fedcover.engines.remote.codes import Refusal
from fedcover.errors import BudgetError, FedcoverError, FileError
from fedcover.methods.base import Target, Task
from fedcover.methods.registry import entry_of
from fedcover.methods.sketch.method import Sketch
from fedcover.privacy import accounting
from fedcover.privacy.events import Event
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import TOLERANCE, Budget, merged
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.privacy.statement import Privacy
from fedcover.site import Site
from fedcover.wire import Message


class _Charging:
    """A method that works as the one inside, and notes what its queries cost the first site."""

    def __init__(self, method: Any, privacy: Privacy, shares: int) -> None:
        self._method, self._privacy, self._shares = method, privacy, shares
        self.events: list[Event] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def answer(self, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        if site.name == "rehearsal 0":
            self.events += self._method.charges(query, self._privacy, self._shares)
        reply: Message = self._method.answer(query, site, source)
        return reply


def charges_of(run: Run, site: Site, budget: Budget) -> list[Event]:
    """What the site's ledger would be charged with for a run."""
    n, size = max(2, run.sites), len(site)
    names = tuple(f"rehearsal {i}" for i in range(n))
    labels = np.arange(size) % site.n_classes
    scores = np.linspace(0, 1, size + 2)[1:-1]
    given: dict[str, Any] = {"n_classes": site.n_classes, "predictions": labels}
    made_up = [Site(name, scores, labels, **given) for name in names]
    public = (run.unit, run.relation) == ("record", "replace")
    task = Task(
        sites=names,
        n_classes=site.n_classes,
        alphas=run.alphas,
        privacy=run.privacy,
        score=site.score,
        seed=run.seed,
        sizes=(size,) * n if public else None,
        min_survivors=run.min_survivors(n),
    )
    if not isinstance(run.make_method(), Sketch):
        task = replace(task, targets=tuple(Target(name, (name,)) for name in names))
    seen = (run.view, run.conspirators) if run.sums else ("server", 1)
    privacy = Privacy(budget.epsilon or 1.0, budget.delta, budget.unit, budget.relation, *seen)
    method: Any = _Charging(run.make_method(), privacy, task.noise_sites if run.sums else 1)
    InProcess().run(method, task, made_up)
    events: list[Event] = method.events
    return events


def examine(found: Findings, folder: Path, overrides: list[str], at_server: bool) -> Run | None:
    """Looks at an app; `at_server` also at the files that only the server needs."""
    config = found.look("app", lambda: _config(folder, overrides))
    if config is None:
        return None
    run = found.look("run configuration", lambda: _run(config))
    if run is None:
        return None
    if run.sums:
        found.look("secure sum", lambda: _sum(run, at_server))
    if at_server:
        found.look("key", lambda: _key(run))
        found.look("out", lambda: (True, writable_folder(run.folder)))
    return run


def examine_together(found: Findings, run: Run, tested: SiteUnderTest) -> None:
    """Looks at whether a site would take part in a run."""
    policy, site, ledger = tested.policy, tested.site, tested.ledger
    if policy is not None:
        found.look("the run at this site", lambda: _accepted(run, tested))
    if ledger is not None and site is not None and run.privacy is not None:
        found.look("budget for the run", lambda: _affordable(run, tested.name, site, ledger))


def _config(folder: Path, overrides: list[str]) -> tuple[dict[str, Any], str]:
    from click import ClickException
    from flwr.common.config import parse_config_args

    path = readable(folder / "pyproject.toml")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        parts = table["tool"]["flwr"]["app"]
        components, config = parts["components"], dict(parts.get("config", {}))
        named = {str(components[key]).partition(":")[0] for key in ("serverapp", "clientapp")}
        config |= parse_config_args(overrides or None)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, ClickException):
        raise FileError(
            f"{path} or --run-config is not that of a Flower app",
            allowed="an app as `fedcover flower init` writes it",
            fix="Compare it with a new one",
        ) from None
    for module in named:
        readable(folder / f"{module}.py")
    return config, f"{path}, {', '.join(sorted(named))}.py"


def _run(config: dict[str, Any]) -> tuple[Run, str]:
    run = Run.of(config)
    method, privacy, alphas = run.make_method(), run.privacy, run.alphas
    levels = ", ".join(f"{a:g}" for a in alphas)
    budget = "no privacy budget"
    if privacy is not None:
        budget = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g}, {privacy.view}"
    return run, f"run {run.run!r}: {method.label}, α = {levels}, {budget}, {run.sites} sites"


def _sum(run: Run, at_server: bool) -> tuple[bool, str]:
    from fedcover.securesum import SumSpec

    if not run.roster:
        raise FedcoverError(
            "there is no roster",
            allowed="roster: a file with the public keys of all sites",
            fix="Set it in pyproject.toml, or choose view='server', which needs more noise",
        )
    names = tuple(f"site {i}" for i in range(run.sites))
    fewest, against = run.min_survivors(run.sites), run.conspirators
    terms = SumSpec(run.run, names, {"table": (1,)}, threshold=fewest, conspirators=against)
    says = f"{terms.threshold} of {run.sites} sites must stay to the end; {against} may conspire"
    if at_server:
        from fedcover.identity import read_roster

        readable(Path(run.roster))
        roster = read_roster(run.roster)
        if len(roster) < run.sites:
            raise FileError(
                f"the roster has {len(roster)} sites, and {run.sites} are to take part",
                allowed="the keys of all sites that take part",
                fix="Add their lines, or lower `sites`",
            )
        says += f"; roster of {', '.join(sorted(roster))}"
    return True, says


def _key(run: Run) -> tuple[bool, str]:
    if not run.key:
        return False, "none: what the run publishes, and its sketch, will be unsigned"
    from fedcover.identity import read_identity

    key = read_identity(private(readable(Path(run.key))))
    return True, f"signs what is published; fingerprint {shown_key(key.public_key())}"


def _accepted(run: Run, tested: SiteUnderTest) -> tuple[bool, str]:
    assert tested.policy is not None
    tested.policy.check_method(entry_of(run.make_method()).name)
    tested.policy.check_privacy(run.privacy, tested.ledger is not None)
    survivors = run.min_survivors(run.sites)
    if survivors is not None:
        tested.policy.check_sum(survivors, run.conspirators, run.privacy)
        if not tested.sums:
            raise Refusal(
                "agreement",
                "a secure sum, at a site without a good key and roster",
                allowed="secure sums at sites with both",
                fix="Add `key` and `roster` to the node's configuration",
            )
    return True, "the site's policy allows it"


def _affordable(run: Run, name: str, site: Site, ledger: Ledger) -> tuple[bool, str]:
    state = ledger.state()
    budget = state.budget
    if any((e.query_id or "").startswith(f"{run.run}/{name}/") for e in state.entries):
        return True, f"run {run.run!r} was answered before; repeating it costs nothing"
    events = charges_of(run, site, budget)
    total = accounting.epsilon(merged([*state.events, *events]), budget.delta)
    if total > budget.epsilon + TOLERANCE:
        raise BudgetError(
            f"the run would bring ε to {total:.4g}, and the budget is {budget.epsilon:g}",
            allowed="runs within the budget",
            fix="Ask for less ε; or, if that is wanted, fedcover ledger set-budget --epsilon …",
        )
    return True, f"ε would go from {state.spent:.4g} to {total:.4g} of {budget.epsilon:g}"

"""The two Flower apps: of a site, an envelope in and an envelope out; of the server, one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fedcover.calibration import Cost
from fedcover.engines.flower.run_config import Run
from fedcover.engines.flower.site_config import client_from_config, read_roster
from fedcover.engines.flower.transport import QUERY, GridTransport, packed, unpacked
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.client import Client, guarded
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.coordinator import Coordinator, RetryPolicy
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.result_message import fit_facts, fit_message, sketch_message
from fedcover.errors import FedcoverError
from fedcover.methods.base import Target, Task, checked_certify
from fedcover.methods.sketch.result import SketchResult

NodeMaker = Callable[[Context], Client]


def client_app(make_node: NodeMaker | None = None) -> ClientApp:
    """A ClientApp whose sites come from `make_node`; default: from each node's configuration."""
    app = ClientApp()

    @app.query(QUERY)
    def answer(message: Message, context: Context) -> Message:
        letter = unpacked(message.content)
        try:
            node = (
                client_from_config(context.node_config) if make_node is None else make_node(context)
            )
            reply = node.handle(letter)
        except Exception as error:  # its text must not reach the server
            reply = guarded(letter, _memory(context.node_config), _raising(error))
        return Message(packed(reply), reply_to=message)

    return app


def _raising(error: Exception) -> Callable[[Envelope], Envelope]:
    def answer(letter: Envelope) -> Envelope:
        raise error

    return answer


def _memory(config: Any) -> ClientState | None:
    """Where to log that the site could not be set up, if even that is known."""
    try:
        return ClientState(Path(str(config["state"])))
    except Exception:
        return None


INFO, ERROR = 20, 40


def server_app() -> ServerApp:
    """A ServerApp that does one run, as its run configuration says."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            conduct(Run.of(context.run_config), GridTransport(grid))
        except FedcoverError as error:
            log(ERROR, "fedcover: %s", error)
            raise RuntimeError(f"fedcover: {error}") from None  # Flower then ends the run as failed

    return app


def conduct(run: Run, transport: Any) -> list[str]:
    """One run from hello to finish; the names of the sites that have their calibration."""
    method, privacy, alphas = run.make_method(), run.privacy, run.alphas
    out = run.folder
    clock = _Clock()
    conductor = Coordinator(
        transport=transport,
        run=run.run,
        retry=RetryPolicy(run.seconds, run.resends, run.sites),
        checkpoint=Checkpoint(out / "rounds"),
        roster=_roster(run) if run.sums else None,
        tell=clock.tell,
    )
    task = conductor.hello(run.known_as, privacy)
    log(INFO, "fedcover: %s takes part in %r", ", ".join(task.sites), run.run)
    task = replace(
        task,
        alphas=alphas,
        seed=run.seed,
        fewest=run.fewest(len(task.sites)),
        certify=checked_certify(run.certify or None, method),
    )
    if run.known_as != "sketch":
        targets = tuple(Target(name, (name,)) for name in task.sites)
        task = replace(task, targets=targets)
    statement = method.statement(task)
    published = conductor.drive(method, task)
    traffic = conductor.traffic
    n = len(task.sites)
    cost = Cost(
        traffic.rounds,
        round(sum(traffic.bytes_up.values()) / n),
        round(sum(traffic.bytes_down.values()) / n),
    )
    facts: dict[str, Any] = {"alphas": alphas, "certify": task.certify}
    if run.known_as == "sketch":
        sketch = _sketch(published, method, task, statement, cost)
        sketch.save(out / "sketch.npz")
        messages = dict.fromkeys(task.sites, sketch_message(sketch))
    else:
        messages = {name: fit_message(published[name]) for name in task.sites}
        options = {f.name: getattr(method, f.name) for f in fields(method) if f.init}  # type: ignore[arg-type]
        facts |= fit_facts(run.known_as, method.label, statement, cost, n, options)
    if conductor.missing.keys() & set(task.sites):  # who was lost may be back, and is asked once
        conductor.retry = replace(conductor.retry, resends=0)
    have = conductor.finish(messages, facts)
    _report(conductor, have, cost, clock, statement)
    return have


def _sketch(table: Any, method: Any, task: Task, statement: Any, cost: Cost) -> SketchResult:
    return SketchResult(
        table=table,
        privacy=statement,
        cost=cost,
        score=task.score,
        most_per_site=method.most_per_site,
    )


def _roster(run: Run) -> Any:
    if not run.roster:
        raise FedcoverError(
            "view is 'secure-sum' and there is no roster",
            allowed="roster: a file with the public keys of all sites, one 'NAME KEY' a line",
            fix="Set it in pyproject.toml, or choose view='server', which needs more noise",
        )
    return read_roster(run.roster)


class _Clock:
    """Progress of a run with an estimate of the time left."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def tell(self, done: int, most: int) -> None:
        each = (time.monotonic() - self.start) / max(done, 1)
        left = each * max(0, most - done)
        log(
            INFO,
            "fedcover: round %d of at most %d, %.1f s each, at most %.0f s left",
            done,
            most,
            each,
            left,
        )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start


def _report(
    conductor: Coordinator, have: list[str], cost: Cost, clock: _Clock, statement: Any
) -> None:
    log(
        INFO,
        "fedcover: done in %.0f s, %d round(s), %d bytes up and %d down per site",
        clock.seconds,
        cost.rounds,
        cost.bytes_up,
        cost.bytes_down,
    )
    log(INFO, "fedcover: calibrations at %s", ", ".join(have) or "no site")
    for name, why in conductor.missing.items():
        log(INFO, "fedcover: %s: %s", name, why)
    if statement is not None:
        log(INFO, "fedcover: %s", statement.describe())

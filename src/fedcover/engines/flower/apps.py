"""The two Flower apps: of a site, an envelope in and an envelope out; of the server, one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fedcover.api import calibrate, collect
from fedcover.engines.flower.run_config import Run
from fedcover.engines.flower.site_config import client_from_config
from fedcover.engines.flower.transport import QUERY, GridTransport, packed, unpacked
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.client import Client, guarded
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.coordinator import Coordinator
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.transport import RetryPolicy, Transport
from fedcover.errors import FedcoverError
from fedcover.methods.base import checked_certify
from fedcover.methods.sketch.method import Sketch
from fedcover.signature import COORDINATOR

ClientMaker = Callable[[Context], Client]


def client_app(make_client: ClientMaker | None = None) -> ClientApp:
    """A ClientApp whose sites come from `make_client`; default: from each node's configuration."""
    app = ClientApp()

    @app.query(QUERY)
    def answer(message: Message, context: Context) -> Message:
        envelope = unpacked(message.content)
        try:
            client = (
                client_from_config(context.node_config)
                if make_client is None
                else make_client(context)
            )
            reply = client.handle(envelope)
        except Exception as error:  # its text must not reach the server
            reply = guarded(envelope, _state(context.node_config), _raising(error))
        return Message(packed(reply), reply_to=message)

    return app


def _raising(error: Exception) -> Callable[[Envelope], Envelope]:
    def answer(envelope: Envelope) -> Envelope:
        raise error

    return answer


def _state(config: Any) -> ClientState | None:
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


def conduct(run: Run, transport: Transport) -> Coordinator:
    """One run from hello to finish; the coordinator as it is at the end."""
    method, clock = run.make_method(), _Clock()
    certify, key = checked_certify(run.certify or None, method), _key(run)
    coordinator = Coordinator(
        transport=transport,
        run_name=run.run,
        retry=RetryPolicy(run.seconds, run.resends, run.sites),
        checkpoint=Checkpoint(run.folder / "rounds"),
        heads=run.folder.parent / "ledger-heads.json",
        roster=_roster(run) if run.sums else None,
        key=key,
        min_survivors=run.threshold or None,
        alpha=run.alphas,
        certify=certify,
        on_progress=clock.tell,
    )
    given: dict[str, Any] = {"privacy": run.privacy, "engine": coordinator, "seed": run.seed}
    if isinstance(method, Sketch):
        sketch = collect(method=method, **given)
        if key is not None:
            sketch = sketch.signed(key, COORDINATOR, COORDINATOR)
        sketch.save(run.folder / "sketch.npz")
    else:
        calibrate(alpha=run.alphas, method=method, certify=certify, **given)
    _report(coordinator, clock)
    return coordinator


def _roster(run: Run) -> Any:
    if not run.roster:
        raise FedcoverError(
            "view is 'secure-sum' and there is no roster",
            allowed="roster: a file with the public keys of all sites, one 'NAME KEY' a line",
            fix="Set it in pyproject.toml, or choose view='server', which needs more noise",
        )
    from fedcover.identity import read_roster

    return read_roster(run.roster)


def _key(run: Run) -> Any:
    if not run.key:
        return None
    from fedcover.identity import read_identity

    return read_identity(run.key)


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


def _report(coordinator: Coordinator, clock: _Clock) -> None:
    traffic, done = coordinator.traffic, coordinator.publication
    cost = traffic.cost(tuple(traffic.bytes_up))
    log(
        INFO,
        "fedcover: done in %.0f s, %d round(s), %d bytes up and %d down per site",
        clock.seconds,
        cost.rounds,
        cost.bytes_up,
        cost.bytes_down,
    )
    log(INFO, "fedcover: calibrations at %s", ", ".join(coordinator.informed) or "no site")
    if coordinator.first_met:
        names = ", ".join(coordinator.first_met)
        kept = coordinator.heads
        log(INFO, "fedcover: ledgers of %s were not known; heads are now in %s", names, kept)
    for name, why in coordinator.missing.items():
        log(INFO, "fedcover: %s: %s", name, why)
    if done is not None and done.statement is not None:
        log(INFO, "fedcover: %s", done.statement.describe())

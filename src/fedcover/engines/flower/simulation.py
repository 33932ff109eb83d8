"""The engine for studies: every site a virtual client of Flower's simulation runtime, on Ray."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import secrets
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedcover import checks
from fedcover.engines.base import Engine, Outcome
from fedcover.engines.inprocess import InProcess
from fedcover.engines.remote.client import Client
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.coordinator import Coordinator
from fedcover.engines.remote.policy import SitePolicy
from fedcover.engines.remote.transport import RetryPolicy
from fedcover.errors import FedcoverError
from fedcover.methods import registry
from fedcover.methods.base import Method, Task
from fedcover.methods.registry import Entry, entry_of
from fedcover.site import Site


@dataclass(frozen=True)
class FlowerSimulation(Engine):
    """Run every site as a virtual client of Flower's simulation runtime.

    Parameters
    ----------
    secure_sum
        Run the real secure sum, for 3 to 100 sites, where the budget's view asks for one; False
        adds the replies up at the server, for studies of larger federations.
    seconds
        To wait for the replies of one stage.
    resends
        How often an envelope is sent again to those that did not answer.
    cpus_per_site
        Of the machine's cores, for each virtual client at work.
    """

    secure_sum: bool = True
    seconds: float = 600.0
    resends: int = 1
    cpus_per_site: float = 1.0
    seconds_per_round = 0.3

    def __post_init__(self) -> None:
        checks.flag(self.secure_sum, "secure_sum")
        checks.real(self.seconds, "seconds", 0, 1e6, open_low=True)
        checks.whole(self.resends, "resends", 0)
        checks.real(self.cpus_per_site, "cpus_per_site", 0, 1e3, open_low=True)

    def run(self, method: Method, task: Task, sites: Sequence[Site] | None) -> Outcome:
        """Both halves of a method to the end, over Flower."""
        if method.most_rounds == 0:  # there is nothing to carry
            return InProcess().run(method, task, sites)
        secure = task.privacy is not None and task.privacy.secure_sum and self.secure_sum
        here = list(sites or ())
        identities = _identities(here) if secure else None
        with tempfile.TemporaryDirectory(prefix="fedcover-") as folder:
            return self._simulate(method, task, here, identities, Path(folder))

    def _simulate(
        self,
        method: Method,
        task: Task,
        sites: list[Site],
        identities: dict[str, Any] | None,
        folder: Path,
    ) -> Outcome:
        _ready()
        from flwr.serverapp import ServerApp
        from flwr.simulation import run_simulation

        from fedcover.engines.flower.apps import client_app
        from fedcover.engines.flower.transport import GridTransport

        roster = None
        if identities is not None:
            roster = {name: key.public_key() for name, key in identities.items()}
        # Without a seed a run makes choices of its own, as in one process; not those of its name.
        choosing = task if task.seed is not None else replace(task, seed=secrets.randbits(32))
        found: list[Outcome | Exception] = []
        app = ServerApp()

        @app.main()
        def main(grid: Any, context: Any) -> None:
            try:
                coordinator = Coordinator(
                    transport=GridTransport(grid),
                    run_name="simulation",
                    retry=RetryPolicy(self.seconds, self.resends, len(sites)),
                    roster=roster,
                )
                coordinator.hello(entry_of(method).name, task.privacy)
                found.append(coordinator.run(method, choosing, None))
            except Exception as error:  # Flower would only print it
                found.append(error)

        clients = client_app(_site_of(sites, _key_texts(identities), folder))
        with _quiet():
            run_simulation(
                server_app=app,
                client_app=clients,
                num_supernodes=len(sites),
                backend_config={
                    "client_resources": {"num_cpus": self.cpus_per_site, "num_gpus": 0.0},
                    "init_args": {"logging_level": 40, "log_to_driver": False},
                },
            )
        if not found:
            raise FedcoverError(
                "Flower's simulation ended without a result",
                allowed="a simulation that runs to its end",
                fix="Look at what Flower printed above",
            )
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]


@dataclass(frozen=True)
class _SiteOf:
    """Makes the node of a virtual client. Ray gets it with every envelope, so it holds no site."""

    folder: Path
    keys: dict[str, bytes] | None
    added: tuple[Entry, ...]

    def __call__(self, context: Any) -> Client:
        for entry in self.added:  # a worker is a process of its own, with a list of its own
            if entry.name not in registry.names(studies=True):
                registry.register(entry)
        number = int(context.node_config["partition-id"])
        site: Site = pickle.loads((self.folder / f"{number}.site").read_bytes())
        return Client(
            site=site,
            state=ClientState(self.folder / str(number)),
            policy=SitePolicy(
                registry.names(studies=True), exact=True, least_sum=2, conspirators=0
            ),
            participant=None if self.keys is None else _participant(site.name, self.keys),
        )


def _site_of(sites: list[Site], keys: dict[str, bytes] | None, folder: Path) -> _SiteOf:
    """Puts every site into a file of the simulation's own folder, for its virtual client.

    Pickled, as Ray itself would send it: the folder is private to this user and ends with the run.
    """
    for number, site in enumerate(sites):
        (folder / f"{number}.site").write_bytes(pickle.dumps(site))
    return _SiteOf(folder, keys, registry.added())


def _participant(name: str, keys: dict[str, bytes]) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from fedcover.securesum import Participant

    loaded: dict[str, Any] = {n: load_pem_private_key(k, None) for n, k in keys.items()}
    return Participant(name, loaded[name], {n: k.public_key() for n, k in loaded.items()})


def _identities(sites: Sequence[Site]) -> dict[str, Any]:
    """Keys for the length of a simulation."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key

    import fedcover.securesum  # says what to install, if need be

    assert fedcover.securesum
    return {site.name: generate_private_key(SECP384R1()) for site in sites}


def _key_texts(identities: dict[str, Any] | None) -> dict[str, bytes] | None:
    if identities is None:
        return None
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {name: key.private_bytes(*form) for name, key in identities.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Only errors of Flower are shown, and what it and Ray leave behind is cleared away.

    Flower warns that its simulation call is to move elsewhere.
    """
    logger = logging.getLogger("flwr")
    before, path = logger.level, os.environ.get("PYTHONPATH")
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield
            finally:
                gc.collect()  # Ray leaves two files open, in a cycle that the collector ends
    finally:
        logger.setLevel(before)
        if path is None:  # Flower puts all of sys.path there, for every later process
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = path


def _ready() -> None:
    """No telemetry and no look for updates; a clear word if Flower is missing."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for package in ("flwr", "ray"):
        if find_spec(package) is None:
            raise FedcoverError(
                f"the engine FlowerSimulation needs the package {package!r}",
                allowed="fedcover with the extra flower",
                fix="pip install 'fedcover[flower]'",
            )

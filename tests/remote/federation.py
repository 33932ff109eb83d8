"""A federation for tests: sites that live in their folders, a transport with faults, and a server.

Every envelope makes its site anew from its folder, as a deployment does, and passes as bytes. A
fault is a function ``fault(name, envelope, answer) -> reply bytes, or None for none``, where
`envelope` is what the server sent and ``answer()`` has the site answer it (or ``answer(other)``
another one).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedcover as fc
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.client import Client
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.coordinator import Coordinator
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.policy import SitePolicy
from fedcover.engines.remote.transport import RetryPolicy
from fedcover.methods.base import Target, Task
from fedcover.methods.sketch.factor import measured
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from fedcover.securesum import Participant
from fedcover.wire import Message

CLASSES = 3
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)
SKETCH = fc.methods.Sketch(bins=EDGES)
SUMS = fc.Privacy(2.0, 1e-5, view="secure-sum")
SERVER_VIEW = fc.Privacy(2.0, 1e-5)
OPEN = SitePolicy(("sketch", "dp-fedcp", "pooled", "estimated-weights"), exact=True)


@cache
def identity(name):
    """A site's key, always the same: state that was written long ago is still this site's."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def made(count=4, sizes=None, n_classes=CLASSES, seed=0):
    """Sites with random scores and labels."""
    rng = np.random.default_rng(seed)
    out = []
    for k in range(count):
        n = 40 + 10 * k if sizes is None else sizes[k]
        labels = rng.integers(0, n_classes, n)
        scores, predicted = rng.beta(2, 1 + labels), rng.integers(0, n_classes, n)
        out.append(fc.Site(f"s{k}", scores, labels, n_classes=n_classes, predictions=predicted))
    return out


PLENTY = Budget(1000.0, 1e-5)
"""Of sites whose budget a test is not about; sites that allow exact answers then have no ledger."""


class Net:
    """A transport to sites in this process.

    fault : what happens to envelopes; None for nothing.
    budget : of the sites' ledgers; None for sites without.
    heard : (site, envelope, reply in bytes) of every envelope that a site has answered.
    passed : (site, envelope, reply) that reached the server.
    """

    def __init__(self, folder, sites=None, budget=PLENTY, policy=None, roster=None):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.sites = dict(enumerate(made() if sites is None else sites))
        names = [site.name for site in self.sites.values()] if roster is None else roster
        self.roster = {name: identity(name).public_key() for name in names}
        self.policy = policy or SitePolicy()
        if self.policy.exact and budget is PLENTY:
            budget = None
        self.ledgers = {}
        if budget is not None:
            for site in self.sites.values():
                path = self.folder / f"{site.name}.ledger"
                self.ledgers[site.name] = path
                if not path.exists():
                    Ledger(path, create=budget)
        self.fault, self.heard, self.passed = None, [], []

    def node(self, number):
        """The site of a node, made anew."""
        site = self.sites[number]
        path = self.ledgers.get(site.name)
        return Client(
            site=site,
            state=ClientState(self.folder / site.name),
            policy=self.policy,
            ledger=None if path is None else Ledger(path),
            participant=Participant(site.name, identity(site.name), self.roster),
            out=self.folder / f"{site.name}.json",
        )

    def nodes(self):
        return sorted(self.sites)

    def exchange(self, envelopes, seconds):
        out = {}
        for number, data in envelopes.items():
            name = self.sites[number].name

            def answer(other=data, number=number, name=name):
                reply = self.node(number).handle(other)
                self.heard.append((name, Envelope.of_bytes(other), reply))
                return reply

            envelope = Envelope.of_bytes(data)
            reply = answer() if self.fault is None else self.fault(name, envelope, answer)
            if reply is not None:
                self.passed.append((name, envelope, reply))
                out[number] = reply
        return out

    def asked(self, stage):
        """The envelopes of a stage that sites have answered; of a sum, by the sum's stage."""
        return [(n, one) for n, one, _ in self.heard if one.phase == stage or kind(one) == stage]

    def heads(self):
        """State of every ledger."""
        return {name: Ledger(path).state().head for name, path in self.ledgers.items()}

    def answers(self):
        """How many answers stand in each ledger."""
        return {n: len(Ledger(path).state().answers) for n, path in self.ledgers.items()}

    def log(self, name):
        """What a site has written for its own people."""
        path = self.folder / name / "log.txt"
        return path.read_text() if path.exists() else ""


def kind(envelope):
    """What an envelope is about: a query's kind, or the stage of a secure sum."""
    return "" if envelope.payload is None else envelope.payload.kind.removeprefix("secure-sum/")


@dataclass
class Server:
    """The people at the server: a run that may be started again."""

    net: Net
    method: object = SKETCH
    privacy: fc.Privacy | None = SUMS
    run: str = "november"
    min_survivors: int | None = 3
    checkpoint: Path | None = None
    resends: int = 1
    quorum: int | None = None
    secure: bool = True
    seed: int = 0
    coordinator: Coordinator = field(default=None)

    def go(self):
        """One run from hello to what is published."""
        sums = self.privacy is not None and self.privacy.secure_sum
        self.coordinator = Coordinator(
            transport=self.net,
            run_name=self.run,
            retry=RetryPolicy(0.01, self.resends, self.quorum or len(self.net.sites)),
            checkpoint=None if self.checkpoint is None else Checkpoint(self.checkpoint),
            roster=self.net.roster if sums else None,
        )
        found = self.coordinator.meet(None, self.method, self.privacy)
        if not self.secure:
            self.coordinator.roster = None
        sketch = isinstance(self.method, fc.methods.Sketch)
        self.task = Task.of(
            replace(found, min_survivors=self.min_survivors if sums else None),
            self.privacy,
            alphas=(0.1, 0.2),
            targets=() if sketch else tuple(Target(n, (n,)) for n in found.sites),
            seed=self.seed,
        )
        return self.coordinator.run(self.method, self.task, None).published


def coordinator(net, *, run="november", secure=True, resends=1, **more):
    """The engine of these sites, as somebody makes it in Python."""
    return fc.engines.Coordinator(
        transport=net,
        run_name=run,
        retry=RetryPolicy(0.01, resends, len(net.sites)),
        roster=net.roster if secure else None,
        **more,
    )


def silent(*names, stage=None, handled=False):
    """These sites do not answer a stage and all after it; `handled`: they did, and died then."""
    gone = set()

    def fault(name, envelope, answer):
        if name in gone:
            return None
        if name in names and stage in (None, envelope.phase, kind(envelope)):
            gone.add(name)
            if handled:
                answer()
            return None
        return answer()

    return fault


def lying(liar, change):
    """One site's replies with another message in them: ``change(message) -> message``."""

    def fault(name, envelope, answer):
        reply = answer()
        if name != liar or envelope.phase == "hello":
            return reply
        return with_body(reply, change)

    return fault


def with_body(reply, change):
    """The reply with its message changed."""
    envelope = Envelope.of_bytes(reply)
    return replace(envelope, payload=change(envelope.payload)).to_bytes()


def with_facts(reply, **facts):
    """The reply with other facts in its head."""
    envelope = Envelope.of_bytes(reply)
    return replace(envelope, header={**envelope.header, **facts}).to_bytes()


def array(key, change):
    """A change of one array of a message, if it is there."""

    def apply(message):
        if key not in message.arrays:
            return message
        arrays = {**message.arrays, key: change(message.arrays[key])}
        return Message(message.kind, arrays, message.numbers)

    return apply


def no_noise(monkeypatch):
    """Sums can be checked to the last digit."""
    monkeypatch.setattr("fedcover.privacy.noise.discrete_gaussian", lambda sigma, shape, source: 0)


def exact_table(net, names, scale=64):
    """What a sketch of these sites sums up to without noise."""
    counts = np.zeros((CLASSES, 4), dtype=np.int64)
    for site in net.sites.values():
        if site.name in names:
            at = 3 - np.searchsorted([0.25, 0.5, 0.75], site.scores, side="left")
            np.add.at(counts, (site.labels, at), scale)
    return measured(counts)


def same(one, two):
    """Whether two published tables are the same to the last bit."""
    return (
        np.array_equal(one.table, two.table)
        and np.array_equal(one.labels, two.labels)
        and one.sites == two.sites
    )


BUDGET = Budget(2.0, 1e-5)

"""Envelopes at a site and at the server, and secure sums at both ends, from valid ones.

A site always answers with an envelope, and "internal" is no answer: it says that something was
raised which nobody had thought of. The server ends in a result or in a FedcoverError.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fedcover as fc
from fedcover import wire
from fedcover.engines.remote.codes import CODES
from fedcover.engines.remote.envelope import Envelope, digest
from fedcover.wire import Message
from tests.fuzz import files, mutations
from tests.fuzz.running import REFUSED, Stray, each, shape_of
from tests.remote.federation import BUDGET, EDGES, OPEN, SERVER_VIEW, SUMS, Net, Server, identity
from tests.securesum import driving

Random = random.Random

RUNS: dict[str, dict[str, Any]] = {
    "sketch": {"privacy": None},
    "private": {"privacy": SERVER_VIEW},
    "confused": {
        "privacy": SERVER_VIEW,
        "method": fc.methods.Sketch(bins=EDGES, confusion=True),
    },
    "steps": {"privacy": None, "method": fc.methods.DPFedCP(rounds=2, local_steps=2)},
    "search": {"privacy": None, "method": fc.methods.DPFedCP(gamma=0.1)},
    "scores": {"privacy": None, "method": fc.methods.Pooled()},
    "secure": {"privacy": SUMS, "min_survivors": 3},
}


@dataclass(frozen=True)
class Recording:
    """A run as it was: the folder of its sites before each envelope to the first of them."""

    net: Net
    steps: tuple[tuple[Path, bytes], ...]


def record(folder: Path, name: str) -> Recording:
    """A run without faults, with what site s0 had on its disk before each envelope."""
    more = RUNS[name]
    policy = OPEN if more["privacy"] is None else None
    budget = None if more["privacy"] is None else BUDGET
    net = Net(folder / name, budget=budget, policy=policy)
    steps: list[tuple[Path, bytes]] = []

    def watch(site: str, envelope: Envelope, answer: Any) -> bytes:
        if site == "s0":
            kept = folder / f"{name}-{len(steps)}"
            shutil.copytree(net.folder, kept)
            steps.append((kept, envelope.to_bytes()))
        reply: bytes = answer()
        return reply

    net.fault = watch
    Server(net, run=name, **more).go()
    net.fault = None
    return Recording(net, tuple(steps))


@cache
def recordings(folder: Path) -> tuple[Recording, ...]:
    folder = folder / "recorded"
    folder.mkdir()
    return tuple(record(folder, name) for name in RUNS)


def at_a_site(rng: Random, folder: Path) -> None:
    """One step of a run, with the envelope or the site's own files changed."""
    one = rng.choice(recordings(folder))
    kept, request = rng.choice(one.steps)
    shutil.rmtree(one.net.folder, ignore_errors=True)
    shutil.copytree(kept, one.net.folder)
    (one.net.folder / "s0").mkdir(exist_ok=True)
    if rng.random() < 0.2:
        change_state(rng, one.net.folder / "s0")
    else:
        request = hostile_letter(rng, request)
    reply = Envelope.of_bytes(one.net.node(0).handle(request))
    assert reply.header["of"] == digest(request)
    if reply.phase != "refused":
        return
    assert set(reply.header) == {"code", "of"}
    assert reply.header["code"] in CODES
    if reply.header["code"] == "internal":
        raise Stray(_last_lines(one.net.log("s0")))
    raise fc.FedcoverError(f"refused: {reply.header['code']}", allowed="", fix="")


def _last_lines(log: str) -> str:
    lines = log.rstrip().splitlines()
    ours = [line.strip() for line in lines if "/fedcover/" in line]
    return f"{lines[-1] if lines else 'nothing in the log'} {ours[-1] if ours else ''}"


def change_state(rng: Random, folder: Path) -> None:
    """One of the files that a site keeps, written by somebody else."""
    found = sorted(p for p in folder.iterdir() if p.is_file() and p.name not in ("lock", "log.txt"))
    if not found:
        return
    path = rng.choice(found)
    raw = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.8:
        raw = files.text_of(mutations.facts(rng, json.loads(raw))).encode("utf-8", "surrogatepass")
    elif path.suffix == ".bin" and rng.random() < 0.8:
        raw = files.hostile_wire(rng, wire.decode(raw))
    else:
        raw = mutations.data(rng, raw)
    path.write_bytes(raw)


def hostile_letter(rng: Random, raw: bytes) -> bytes:
    """An envelope with another head or another message in it, or bytes that nearly are one."""
    one = Envelope.of_bytes(raw)
    how = rng.randrange(10)
    if how == 0:
        return mutations.data(rng, raw)
    header, payload, phase, number = dict(one.header), one.payload, one.phase, one.number
    if how < 5 and header:
        changed = mutations.facts(rng, header)
        header = changed if isinstance(changed, dict) else header
    if (how >= 4 or not header) and payload is not None:
        payload = hostile_payload(rng, payload)
    if how == 9:
        phase = rng.choice(["hello", "ask", "sum", "finish", "refused"])
        number = rng.choice([number, 0, 1, 2**31 - 1])
    try:
        return Envelope(phase, one.run, number, header, payload).to_bytes()
    except (ValueError, RecursionError):  # what no envelope can hold
        return mutations.data(rng, raw)


def hostile_payload(rng: Random, given: Message) -> Message:
    """The message changed; a sketch in it by what is inside its file."""
    if given.kind == "sketch-file" and rng.random() < 0.7:
        return Message(given.kind, {"file": np.frombuffer(files.hostile_sketch(rng), np.uint8)})
    return mutations.message(rng, given)


def at_the_server(rng: Random, folder: Path) -> None:
    """A run in which one site's replies are changed."""
    name = rng.choice(sorted(RUNS))
    more = RUNS[name]
    place = folder / "served"
    shutil.rmtree(place, ignore_errors=True)
    policy = OPEN if more["privacy"] is None else None
    net = Net(place, budget=None if more["privacy"] is None else BUDGET, policy=policy)
    after, said = rng.randrange(6), 0

    def fault(site: str, envelope: Envelope, answer: Any) -> bytes:
        nonlocal said
        reply: bytes = answer()
        said += site == "s1"
        if site != "s1" or said <= after:
            return reply
        changed = hostile_letter(rng, reply)
        if rng.random() < 0.8:  # it says what it answers, or it would only be sent again
            try:
                found = Envelope.of_bytes(changed)
                header = {**found.header, "of": digest(envelope.to_bytes())}
                changed = Envelope(
                    found.phase, found.run, found.number, header, found.payload
                ).to_bytes()
            except (ValueError, RecursionError):
                return changed
        return changed

    net.fault = fault
    Server(net, run=name, resends=0, quorum=3, **more).go()


def _federation(rng: Random) -> driving.Federation:
    shapes = rng.choice([{"x": (5,)}, {"x": (2, 3), "y": ()}])
    return driving.Federation(rng.choice((3, 4)), shapes=shapes, keys=identity)


def sum_replies(rng: Random, folder: Path) -> None:
    """A secure sum in which a site says something else at some stage."""
    net = _federation(rng)
    stage, liars = rng.choice(driving.STAGES), rng.choice([("s1",), ("s1",), ("s0", "s2")])

    def lie(at: str, name: str, reply: Message) -> Message:
        return mutations.message(rng, reply) if at == stage and name in liars else reply

    net.run(lie=lie)


def sum_queries(rng: Random, folder: Path) -> None:
    """A stage of a secure sum as a lying server asks it, before and after the honest one."""
    net = _federation(rng)
    queries = net.to(rng.choice(driving.STAGES))
    for first in (True, False):
        if not first:
            net.answer("s0", queries["s0"])
        try:
            asked = wire.decode(wire.encode(mutations.message(rng, queries["s0"])))
        except fc.FedcoverError:
            continue
        before = net.states["s0"]
        try:
            net.answer("s0", asked)
        except fc.FedcoverError as error:
            assert net.states["s0"] == before
            REFUSED[shape_of(error)] += 1
        net.states["s0"] = before


def letters(rng: Random, folder: Path) -> None:
    """Bytes as an envelope, a message, a sketch."""
    raw = rng.choice(rng.choice(recordings(folder)).steps)[1]
    each(
        lambda: Envelope.of_bytes(mutations.data(rng, raw)),
        lambda: wire.decode(mutations.data(rng, raw)),
    )


ATTEMPTS = {
    "envelopes at a site": at_a_site,
    "replies at the server": at_the_server,
    "secure-sum replies": sum_replies,
    "secure-sum queries": sum_queries,
    "bytes of envelopes": letters,
}

"""What travels between server and sites, as bytes: a header of facts and at most one message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcover import wire
from fedcover._io.facts import digest as sha256
from fedcover._io.facts import from_json, made_of, to_json
from fedcover.engines.remote.codes import Refusal
from fedcover.errors import FedcoverError
from fedcover.wire import Message

VERSION = 2
"""Of envelopes; a site and a server with different ones refuse each other. 1 was that of 0.1."""

PHASES = ("hello", "ask", "sum", "finish", "refused")

MAX_HEADER = 1 << 20
"""Longest header, in bytes."""

LONGEST_RUN = 100
"""Characters of a run's name: it is a part of names in ledgers, which may have 200."""


@dataclass(frozen=True)
class Envelope:
    """One envelope: what it is about, and at most one message.

    Attributes
    ----------
    phase
        "hello", "ask" (a query of a method), "sum" (a stage of a secure sum), "finish" (what was
        published), or, from a site, "refused".
    run
        Name of the run, chosen by the people who start it; a repeated run has the same.
    number
        Round of the run.
    header
        Plain facts: numbers, texts and lists of them.
    payload
        The message, if any.
    """

    phase: str
    run: str
    number: int = 0
    header: Mapping[str, Any] = field(default_factory=dict)
    payload: Message | None = None

    def to_bytes(self) -> bytes:
        head = _Head(self.phase, self.run, self.number, dict(self.header))
        text = to_json(vars(head)).encode()
        arrays = {"head": np.frombuffer(text, np.uint8)}
        if self.payload is not None:
            arrays["body"] = np.frombuffer(wire.encode(self.payload), np.uint8)
        return wire.encode(Message("letter", arrays, {"version": VERSION}))

    @classmethod
    def of_bytes(cls, data: bytes) -> Envelope:
        """The envelope in some bytes; one clear error for anything else."""
        start = data[: len(wire.MAGIC) + 1] if isinstance(data, bytes) else b""
        if start[:-1] == wire.MAGIC and start[-1] != wire.VERSION:
            raise other_version(f"bytes of version {start[-1]}", f"version {wire.VERSION}")
        outer = wire.decode(data)
        version = outer.numbers.get("version")
        if outer.kind == "letter" and version != VERSION:
            raise other_version(f"version {version!r}", f"version {VERSION}")
        parts = set(outer.arrays)
        if outer.kind != "letter" or not parts <= {"head", "body"} or len(outer.numbers) != 1:
            raise _strange("it has parts that no envelope has")
        head = _head(outer)
        body = outer.arrays.get("body")
        if body is not None and (body.dtype != np.uint8 or body.ndim != 1):
            raise _strange("its body is not bytes")
        return cls(
            phase=head.stage,
            run=head.run,
            number=head.number,
            header=head.facts,
            payload=None if body is None else wire.decode(body.tobytes()),
        )


def digest(data: bytes) -> str:
    """Stands for an envelope in the reply to it."""
    return sha256(data)[:32]


def checked_run(run: object) -> str:
    """A name that a run may have: it stands in ledgers and in logs."""
    good = isinstance(run, str) and 0 < len(run) <= LONGEST_RUN
    if not isinstance(run, str) or not good or not run.isprintable() or not run.strip():
        raise FedcoverError(
            f"the run is called {run!r:.120}",
            allowed=f"1 to {LONGEST_RUN} printable characters",
            fix="Name it after what it is for, such as 'november'",
        )
    return run


def other_version(found: str, wanted: str) -> Refusal:
    """The error for envelopes of another format."""
    return Refusal(
        "version",
        f"an envelope has {found}",
        allowed=wanted,
        fix="Install the same version of fedcover at the server and at every site",
    )


@dataclass(frozen=True)
class _Head:
    """Phase and header as they travel."""

    stage: str
    run: str
    number: int
    facts: dict[str, Any]


def _head(outer: Message) -> _Head:
    array = outer.arrays.get("head", np.empty(0))
    if array.dtype != np.uint8 or array.ndim != 1 or not len(array):
        raise _strange("it has no head")
    try:
        head: _Head = made_of(_Head, from_json(array.tobytes(), MAX_HEADER))
    except (TypeError, ValueError) as error:
        raise _strange(f"its head cannot be read ({error})") from None
    if head.stage not in PHASES or not 0 <= head.number < 1 << 31:
        raise _strange("its head is not that of an envelope")
    checked_run(head.run)
    return head


def _strange(what: str) -> FedcoverError:
    return FedcoverError(
        f"something came that is no envelope of fedcover: {what}",
        allowed="envelopes of fedcover",
        fix="Check that both ends run fedcover, in the same version",
    )

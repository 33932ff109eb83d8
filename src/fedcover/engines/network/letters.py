"""What travels between server and sites, as bytes: plain facts and at most one message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcover.errors import FedcoverError
from fedcover.protocols import wire
from fedcover.protocols.message import Message

VERSION = 1
"""Of letters; a site and a server with different ones refuse each other."""

STAGES = ("hello", "ask", "sum", "finish", "refused")

MOST_HEAD = 1 << 20
"""Longest head, in bytes."""


@dataclass(frozen=True)
class Letter:
    """One letter.

    Attributes
    ----------
    stage
        "hello", "ask" (a query of a protocol), "sum" (a stage of a secure sum), "finish" (what was
        published), or, from a site, "refused".
    run
        Name of the run, chosen by the people who start it; a repeated run has the same.
    number
        Round of the run.
    facts
        Plain facts: numbers, texts and lists of them.
    body
        The message, if any.
    """

    stage: str
    run: str
    number: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    body: Message | None = None

    def to_bytes(self) -> bytes:
        head = {
            "stage": self.stage,
            "run": self.run,
            "number": self.number,
            "facts": dict(self.facts),
        }
        text = json.dumps(head, sort_keys=True, allow_nan=False).encode()
        arrays = {"head": np.frombuffer(text, np.uint8)}
        if self.body is not None:
            arrays["body"] = np.frombuffer(wire.encode(self.body), np.uint8)
        return wire.encode(Message("letter", arrays, {"version": VERSION}))

    @classmethod
    def of_bytes(cls, data: bytes) -> Letter:
        """The letter in some bytes; one clear error for anything else."""
        outer = wire.decode(data)
        if outer.kind != "letter" or outer.numbers.get("version") != VERSION:
            raise other_version(outer.numbers.get("version"))
        if not set(outer.arrays) <= {"head", "body"} or set(outer.numbers) != {"version"}:
            raise _strange("it has parts that no letter has")
        head = _head(outer)
        body = outer.arrays.get("body")
        if body is not None and body.dtype != np.uint8:
            raise _strange("its body is not bytes")
        return cls(
            stage=head["stage"],
            run=head["run"],
            number=head["number"],
            facts=head["facts"],
            body=None if body is None else wire.decode(body.tobytes()),
        )


def digest(data: bytes) -> str:
    """Stands for a letter in the reply to it."""
    return hashlib.sha256(data).hexdigest()[:32]


def other_version(version: object) -> FedcoverError:
    """The error for letters of another format."""
    return FedcoverError(
        f"a letter has version {version!r}",
        allowed=f"version {VERSION}",
        fix="Install the same version of fedcover at the server and at every site",
    )


def _head(outer: Message) -> dict[str, Any]:
    array = outer.arrays.get("head", np.empty(0))
    if array.dtype != np.uint8 or array.ndim != 1 or not 0 < len(array) <= MOST_HEAD:
        raise _strange("it has no head")
    try:
        head = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise _strange("its head is not JSON") from None
    good = isinstance(head, dict) and set(head) == {"stage", "run", "number", "facts"}
    good = good and head["stage"] in STAGES and isinstance(head["facts"], dict)
    good = good and isinstance(head["run"], str) and 0 < len(head["run"]) <= 200
    good = good and type(head["number"]) is int and 0 <= head["number"] < 1 << 31
    if not good:
        raise _strange("its head is not that of a letter")
    return dict(head)


def _strange(what: str) -> FedcoverError:
    return FedcoverError(
        f"something came that is no letter of fedcover: {what}",
        allowed="letters of fedcover",
        fix="Check that both ends run fedcover, in the same version",
    )

"""Envelopes out and replies in: how long to wait, whom to ask again, and what counts as a reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedcover import checks
from fedcover.engines.remote.codes import Refusal, known_code
from fedcover.engines.remote.envelope import Envelope, digest
from fedcover.errors import FedcoverError

Node = int


class Transport(Protocol):
    """What carries envelopes."""

    def nodes(self) -> list[Node]:
        """Nodes that can be reached now."""
        ...

    def exchange(self, envelopes: Mapping[Node, bytes], seconds: float) -> dict[Node, bytes]:
        """The replies that came in time; those of other nodes are missing."""
        ...


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, and for how many.

    Attributes
    ----------
    seconds
        For the replies of one stage.
    resends
        How often a envelope is sent again to those that did not answer.
    quorum
        How many sites must be there to begin; those that say hello then make up the federation.
    """

    seconds: float = 120.0
    resends: int = 2
    quorum: int = 1

    def __post_init__(self) -> None:
        checks.real(self.seconds, "seconds", 0, 1e6, open_low=True)
        checks.whole(self.resends, "resends", 0)
        checks.whole(self.quorum, "quorum", 1)

    @property
    def description(self) -> str:
        return f"within {self.seconds:g} s, asked {self.resends + 1} time(s)"


def request_all(
    transport: Transport, envelopes: Mapping[Node, Envelope], retry: RetryPolicy
) -> tuple[dict[Node, Envelope], dict[Node, str]]:
    """Good replies by node, and the codes of those that refused; the rest did not answer.

    A reply to something else, or one that cannot be, is none: the envelope is sent again.
    """
    waiting = {node: envelope.to_bytes() for node, envelope in envelopes.items()}
    good: dict[Node, Envelope] = {}
    refused: dict[Node, str] = {}
    for _ in range(retry.resends + 1):
        if not waiting:
            break
        for node, data in transport.exchange(waiting, retry.seconds).items():
            if node not in waiting:
                continue
            reply = _reply_to(waiting[node], envelopes[node], data)
            if isinstance(reply, str):
                refused[node] = reply
            elif reply is not None:
                good[node] = reply
        waiting = {n: d for n, d in waiting.items() if n not in good and n not in refused}
    return good, refused


def _reply_to(sent: bytes, envelope: Envelope, data: bytes) -> Envelope | str | None:
    """The reply to this very envelope; a code; or None for what is stale or broken."""
    try:
        reply = Envelope.of_bytes(data)
    except Refusal as refusal:  # of another version: it could not even say what it replies to
        return refusal.code
    except FedcoverError:
        return None
    if reply.header.get("of") != digest(sent):
        return None
    if reply.phase == "refused":
        return known_code(reply.header.get("code"))
    same = (reply.phase, reply.run, reply.number) == (envelope.phase, envelope.run, envelope.number)
    whole = reply.payload is not None or envelope.phase in ("hello", "finish")
    return reply if same and whole else None

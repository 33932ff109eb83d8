"""The server on the network: takes a method through its rounds, whatever happens on the way.

    hello    who is there, with which classes, score and how many records
    ask      a round of the protocol: all sites, resent to those that do not answer
    sum      the same as a secure sum, which goes on with the sites that are left
    finish   what was published; every site makes its own calibration

A site that answers what cannot be, or something of another round, counts as not having answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedcover.engines.base import Traffic
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.codes import CODES, refused_by
from fedcover.engines.remote.envelope import Envelope, checked_run
from fedcover.engines.remote.handshake import Introductions, as_before, introduction, together
from fedcover.engines.remote.transport import Node, exchange
from fedcover.engines.remote.transport import RetryPolicy as RetryPolicy
from fedcover.engines.remote.transport import Transport as Transport
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message, Method, Published, Round, SecureSum, ServerHalf, Task
from fedcover.privacy.statement import Privacy


@dataclass
class Coordinator:
    """Drives one run.

    Attributes
    ----------
    transport
        What carries the letters.
    run
        Name of the run; the same again repeats it.
    retry
        How long to wait.
    checkpoint
        Where finished rounds are kept; None for nowhere.
    roster
        Public keys of the sites, for secure sums; None adds replies up without one.
    tell
        Called with (rounds done, most rounds) after every round.
    names
        The node of every site that is there.
    missing
        Who is not there, or left, and why, in words.
    traffic
        Rounds and bytes so far, those of an interrupted run included.
    """

    transport: Transport
    run: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    checkpoint: Checkpoint | None = None
    roster: Any = None
    tell: Callable[[int, int], None] = lambda done, most: None
    names: dict[str, Node] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    _said: Introductions = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_run(self.run)

    def hello(self, method: str, privacy: Privacy | None) -> Task:
        """Meets the sites: what everybody may know of them, as a task without targets."""
        facts = {"method": method, "privacy": None if privacy is None else _budget(privacy)}
        letters = {node: Envelope("hello", self.run, 0, facts) for node in self._nodes()}
        replies, refused = exchange(self.transport, letters, self.retry)
        self.names, self.missing, found = {}, {}, {}
        for node in letters:
            if node in refused:
                self.missing[f"node {node}"] = CODES[refused[node]][0]
            elif node not in replies:
                self.missing[f"node {node}"] = f"did not answer {self.retry.description}"
            elif (said := introduction(replies[node].header)) is None:
                self.missing[f"node {node}"] = "said things of itself that cannot be"
            elif said["name"] in found:
                raise FedcoverError(
                    f"two sites are called {said['name']!r}",
                    allowed="different names",
                    fix="Rename one",
                )
            else:
                found[said["name"]] = said
                self.names[said["name"]] = node
        if len(found) < self.retry.quorum:
            if refused:
                node, code = next(iter(refused.items()))
                raise refused_by(f"node {node}", code)
            raise self._too_few(len(found))
        self._said = self._federation(found)
        self.traffic = Traffic(0, dict.fromkeys(self._said, 0), dict.fromkeys(self._said, 0))
        return together(self._said, privacy)

    def _nodes(self) -> list[Node]:
        """The nodes, once there are enough: they connect when they like."""
        until = time.monotonic() + self.retry.seconds
        while len(nodes := self.transport.nodes()) < self.retry.quorum:
            if time.monotonic() > until:
                raise self._too_few(len(nodes))
            time.sleep(0.5)
        return nodes

    def _federation(self, found: Introductions) -> Introductions:
        """Those that are there; in a run that is repeated, those that it began with."""
        known = self.checkpoint.known() if self.checkpoint is not None else None
        if known is None:
            return found
        before = as_before(self.run, found, known.get("sites"))
        for name in sorted(set(found) - set(before)):
            self.missing[name] = "is not of this run, which began without it"
            del self.names[name]
        for name in sorted(set(before) - set(found)):
            self.missing[name] = "was there when this run began, and is not now"
        return before

    def drive(self, method: Method, task: Task) -> Published:
        """All rounds of a method; what it publishes."""
        server = method.server(task)
        ended, asked = _next(server, None, 0)
        done = 0 if ended else self._begin(method, task)
        number = 0
        while not ended:
            queries = asked.queries if isinstance(asked, SecureSum) else asked
            if self.checkpoint is not None and number < done:
                replies = self.checkpoint.replies(number, queries, self.traffic)
            else:
                replies = self._round(asked, queries, task, number)
            number += 1
            self.traffic.rounds = number
            self.tell(number, method.most_rounds)
            ended, asked = _next(server, replies, number)
        return asked

    def _begin(self, method: Method, task: Task) -> int:
        if self.checkpoint is None:
            return 0
        facts = {
            "run": self.run,
            "method": repr(method),
            "sites": self._said,
            "levels": task.alphas,
            "targets": [t.name for t in task.targets],
            "seed": task.seed,
            "threshold": task.fewest,
            "budget": None if task.privacy is None else _budget(task.privacy),
        }
        return self.checkpoint.begin(facts)

    def _round(
        self, asked: Round | SecureSum, queries: Round, task: Task, number: int
    ) -> dict[str, Message]:
        before = asdict(self.traffic)
        if isinstance(asked, SecureSum):
            replies = {"sum": self._sum(asked, task, number)}
        else:
            replies = self._ask(asked, number)
        if self.checkpoint is not None:
            up, down = (
                {n: count - before[way][n] for n, count in getattr(self.traffic, way).items()}
                for way in ("bytes_up", "bytes_down")
            )
            self.checkpoint.keep(number, queries, replies, Traffic(1, up, down))
        return replies

    def finish(self, messages: Mapping[str, Message], facts: Mapping[str, Any]) -> list[str]:
        """Sends every site what was published; the names of those that have it."""
        letters = {
            name: Envelope("finish", self.run, self.traffic.rounds, facts, message)
            for name, message in messages.items()
        }
        replies, refused = self._exchange(letters)
        for name in letters:
            if name in refused:
                self.missing[name] = CODES[refused[name]][0]
            elif name not in replies:
                self.missing[name] = f"did not take the result {self.retry.description}"
        return sorted(replies)

    def _ask(self, queries: Round, number: int) -> dict[str, Message]:
        """One round: every site must answer in the end."""
        replies, refused = self._send("ask", queries, number)
        for name in queries:
            if name in refused:
                raise refused_by(name, refused[name])
            if name not in replies:
                raise FedcoverError(
                    f"site {name!r} has not answered round {number + 1} {self.retry.description}",
                    allowed="an answer of every site",
                    fix="Bring it back and start the run again under the same name: finished "
                    "rounds are not repeated, and no budget is spent twice",
                )
        return replies

    def _sum(self, asked: SecureSum, task: Task, number: int) -> Message:
        """One round as a secure sum, or added up here where that was asked for."""
        from os import urandom

        from fedcover.engines.base import sum_replies
        from fedcover.engines.remote.secure_rounds import secure_total

        if self.roster is None:
            return sum_replies(asked, self._ask(asked.queries, number), task.sites)
        from fedcover.securesum import SumSpec

        question = next(iter(asked.queries.values()))
        terms = SumSpec(
            run=f"{self.run}/{number}/{urandom(6).hex()}",
            sites=tuple(asked.queries),
            shapes=asked.shapes,
            question=question,
            threshold=task.noisy,
        )
        total = secure_total(
            terms,
            self.roster,
            send=lambda queries: self._send("sum", queries, number),
            before=self.checkpoint.survivors(number) if self.checkpoint else None,
            agreeing=lambda names: self._agreeing(number, names),
        )
        self.missing |= total.missing
        present = [k for k, name in enumerate(task.sites) if name in total.sites]
        return Message(
            question.kind, {**total.arrays, "present": np.array(present, dtype=np.int64)}
        )

    def _agreeing(self, number: int, names: Any) -> None:
        if self.checkpoint is not None:
            self.checkpoint.keep_survivors(number, names)

    def _send(
        self, phase: str, queries: Round, number: int
    ) -> tuple[dict[str, Message], dict[str, str]]:
        """Replies to queries by site, and the codes of those that refused; bytes are counted."""
        letters = {n: Envelope(phase, self.run, number, {}, q) for n, q in queries.items()}
        replies, refused = self._exchange(letters)
        out = {}
        for name, reply in replies.items():
            assert reply.payload is not None  # or it would not count as a reply
            out[name] = reply.payload
            self.traffic.bytes_down[name] += len(letters[name].to_bytes())
            self.traffic.bytes_up[name] += len(reply.to_bytes())
        return out, refused

    def _exchange(
        self, letters: Mapping[str, Envelope]
    ) -> tuple[dict[str, Envelope], dict[str, str]]:
        """Good replies by site, and codes of refusals; a site without a node is silent."""
        by_node = {node: name for name, node in self.names.items() if name in letters}
        asked = {node: letters[name] for node, name in by_node.items()}
        replies, refused = exchange(self.transport, asked, self.retry)
        found = {by_node[node]: reply for node, reply in replies.items()}
        return {n: found[n] for n in letters if n in found}, {
            by_node[node]: code for node, code in refused.items()
        }

    def _too_few(self, found: int) -> FedcoverError:
        why = "".join(f"; {name} {reason}" for name, reason in list(self.missing.items())[:5])
        return FedcoverError(
            f"{found} sites are there{why}",
            allowed=f"at least {self.retry.quorum}, the quorum",
            fix="Start the others, wait for them, or lower the quorum",
        )


def _next(server: ServerHalf, replies: Round | None, number: int) -> tuple[bool, Any]:
    """Whether the protocol has ended, with what; else what it asks next."""
    try:
        return False, next(server) if replies is None else server.send(replies)
    except StopIteration as end:
        return True, end.value
    except FedcoverError:
        raise
    except Exception as error:  # replies come from other people's machines
        if replies is None:
            raise
        raise FedcoverError(
            f"the replies of round {number} cannot be worked with ({type(error).__name__})",
            allowed="replies that fit the queries",
            fix="Check that server and sites run the same version of fedcover; one of the sites "
            "may send wrong numbers",
        ) from error


def _budget(privacy: Privacy) -> dict[str, Any]:
    return {k: getattr(privacy, k) for k in ("epsilon", "delta", "unit", "relation", "view")}

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
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fedcover import scores
from fedcover.engines.base import Traffic
from fedcover.engines.network.checkpoint import Checkpoint
from fedcover.engines.network.codes import words
from fedcover.engines.network.letters import Letter, digest
from fedcover.errors import FedcoverError
from fedcover.privacy.statement import Privacy
from fedcover.protocols.base import Message, Method, Published, Round, SecureSum, Task
from fedcover.site import checked_name

Node = int


class Channel(Protocol):
    """What carries letters."""

    def nodes(self) -> list[Node]:
        """Nodes that can be reached now."""
        ...

    def exchange(self, letters: Mapping[Node, bytes], seconds: float) -> dict[Node, bytes]:
        """The replies that came in time; those of other nodes are missing."""
        ...


@dataclass(frozen=True)
class Patience:
    """How long to wait, and for how many.

    Attributes
    ----------
    seconds
        For the replies of one stage.
    resends
        How often a letter is sent again to those that did not answer.
    quorum
        How many sites must be there to begin; those that say hello then make up the federation.
    """

    seconds: float = 120.0
    resends: int = 2
    quorum: int = 1


@dataclass
class Conductor:
    """Drives one run.

    Attributes
    ----------
    channel
        What carries the letters.
    run
        Name of the run; the same again repeats it.
    patience
        How long to wait.
    checkpoint
        Where finished rounds are kept; None for nowhere.
    roster
        Public keys of the sites, for secure sums; None adds replies up without one.
    tell
        Called with (rounds done, most rounds) after every round.
    """

    channel: Channel
    run: str
    patience: Patience = Patience()
    checkpoint: Checkpoint | None = None
    roster: Any = None
    tell: Callable[[int, int], None] = lambda done, most: None
    names: dict[str, Node] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def hello(self, method: str, privacy: Privacy | None) -> Task:
        """Meets the sites: what everybody may know of them, as a task without targets."""
        facts = {"method": method, "privacy": None if privacy is None else _budget(privacy)}
        nodes = self._nodes()
        asked = {node: Letter("hello", self.run, 0, facts) for node in nodes}
        replies, refused = self._exchange(asked)
        found: dict[str, dict[str, Any]] = {}
        for node, reply in sorted(replies.items()):
            name = checked_name(reply.facts.get("name"), "name of a site")  # type: ignore[arg-type]
            if name in found:
                raise FedcoverError(
                    f"two sites are called {name!r}", allowed="different names", fix="Rename one"
                )
            found[name] = dict(reply.facts)
            self.names[name] = node
        self.missing = {f"node {node}": code for node, code in refused.items()}
        if len(found) < self.patience.quorum:
            if refused:
                node, code = next(iter(refused.items()))
                raise words(f"node {node}", code)
            raise _too_few(len(found), self.patience.quorum)
        names = tuple(sorted(found))
        first = found[names[0]]
        for name in names[1:]:
            for what in ("n_classes", "score", "temperature", "label_names"):
                if found[name].get(what) != first.get(what):
                    raise FedcoverError(
                        f"sites {names[0]!r} and {name!r} differ in {what}",
                        allowed=f"the same {what} at every site",
                        fix="Make the sites' configurations alike",
                    )
        self.traffic = Traffic(0, dict.fromkeys(names, 0), dict.fromkeys(names, 0))
        sizes = [found[name].get("records") for name in names]
        known = all(isinstance(n, int) and n >= 1 for n in sizes)
        spec = first.get("score")
        return Task(
            sites=names,
            n_classes=int(first["n_classes"]),
            privacy=privacy,
            score=None if spec is None else scores.from_spec(spec),
            sizes=tuple(sizes) if known else None,  # type: ignore[arg-type]
        )

    def _nodes(self) -> list[Node]:
        """The nodes, once there are enough: they connect when they like."""
        until = time.monotonic() + self.patience.seconds
        while len(nodes := self.channel.nodes()) < self.patience.quorum:
            if time.monotonic() > until:
                raise _too_few(len(nodes), self.patience.quorum)
            time.sleep(0.5)
        return nodes

    def drive(self, method: Method, task: Task) -> Published:
        """All rounds of a method; what it publishes."""
        done = self._begin(method, task)
        server, replies = method.server(task), None
        number = 0
        while True:
            try:
                asked = next(server) if replies is None else server.send(replies)
            except StopIteration as end:
                return end.value
            queries = asked.queries if isinstance(asked, SecureSum) else asked
            if number < done and self.checkpoint is not None:
                replies = self.checkpoint.replies(number, queries)
            else:
                if isinstance(asked, SecureSum):
                    replies = {"sum": self._sum(asked, task, number)}
                else:
                    replies = self._ask(asked, number)
                if self.checkpoint is not None:
                    self.checkpoint.keep(number, queries, replies)
            number += 1
            self.traffic.rounds = number
            self.tell(number, method.most_rounds)

    def finish(self, messages: Mapping[str, Message], facts: Mapping[str, Any]) -> list[str]:
        """Sends every site what was published; the names of those that have it."""
        number = self.traffic.rounds
        asked = {
            self.names[name]: Letter("finish", self.run, number, facts, message)
            for name, message in messages.items()
        }
        replies, refused = self._exchange(asked)
        by_node = {node: name for name, node in self.names.items()}
        self.missing |= {by_node[node]: code for node, code in refused.items()}
        return sorted(by_node[node] for node in replies)

    def _begin(self, method: Method, task: Task) -> int:
        if self.checkpoint is None:
            return 0
        facts = {
            "run": self.run,
            "method": repr(method),
            "sites": task.sites,
            "alphas": task.alphas,
            "targets": [t.name for t in task.targets],
            "seed": task.seed,
            "privacy": None if task.privacy is None else _budget(task.privacy),
        }
        return self.checkpoint.begin(facts)

    def _ask(self, queries: Round, number: int) -> dict[str, Message]:
        """One round: every site must answer in the end."""
        asked = {
            self.names[name]: Letter("ask", self.run, number, {}, query)
            for name, query in queries.items()
        }
        replies, refused = self._exchange(asked)
        out = {}
        for name in queries:
            node = self.names[name]
            if node in refused:
                raise words(name, refused[node])
            reply = replies.get(node)
            if reply is None or reply.body is None:
                raise FedcoverError(
                    f"site {name!r} has not answered round {number + 1} within "
                    f"{self.patience.seconds:g} s, asked {self.patience.resends + 1} times",
                    allowed="an answer of every site",
                    fix="Bring it back and start the run again under the same name: finished "
                    "rounds are not repeated, and no budget is spent twice",
                )
            out[name] = reply.body
            self._count(name, asked[node], reply)
        return out

    def _sum(self, asked: SecureSum, task: Task, number: int) -> Message:
        """One round as a secure sum, or added up here where that was asked for."""
        if self.roster is None:
            from fedcover.engines.inprocess import summed

            return summed(list(self._ask(asked.queries, number).values()))
        from os import urandom

        from fedcover.securesum import Terms
        from fedcover.securesum import server as sum_server

        question = next(iter(asked.queries.values()))
        terms = Terms(
            run=f"{self.run}/{number}/{urandom(6).hex()}",
            sites=tuple(asked.queries),
            shapes=asked.shapes,
            question=question,
            threshold=task.noisy,
        )
        stages = sum_server(terms, self.roster)
        replies: dict[str, Message] | None = None
        refused: dict[str, str] = {}
        while True:
            try:
                queries = next(stages) if replies is None else stages.send(replies)
            except StopIteration as end:
                total = end.value
                self.missing |= dict(total.missing)
                present = [i for i, name in enumerate(task.sites) if name in total.sites]
                return Message(
                    question.kind, {**total.arrays, "present": np.array(present, dtype=np.int64)}
                )
            except FedcoverError as error:
                if refused:  # the sites' own words say more than a number of sites that are left
                    name, code = next(iter(refused.items()))
                    raise words(name, code) from error
                raise
            letters = {
                self.names[name]: Letter("sum", self.run, number, {}, query)
                for name, query in queries.items()
            }
            got, bad = self._exchange(letters)
            replies = {}
            for name in queries:
                node = self.names[name]
                if node in bad:
                    refused[name] = bad[node]
                elif node in got and got[node].body is not None:
                    replies[name] = got[node].body  # type: ignore[assignment]
                    self._count(name, letters[node], got[node])

    def _count(self, name: str, sent: Letter, got: Letter) -> None:
        self.traffic.bytes_down[name] += len(sent.to_bytes())
        self.traffic.bytes_up[name] += len(got.to_bytes())

    def _exchange(
        self, letters: Mapping[Node, Letter]
    ) -> tuple[dict[Node, Letter], dict[Node, str]]:
        """Good replies by node, and the codes of those that refused; the rest did not answer."""
        waiting = {node: letter.to_bytes() for node, letter in letters.items()}
        good: dict[Node, Letter] = {}
        refused: dict[Node, str] = {}
        for _ in range(self.patience.resends + 1):
            for node, data in self.channel.exchange(waiting, self.patience.seconds).items():
                if node not in waiting:
                    continue
                reply = _reply_to(waiting[node], letters[node], data)
                if reply is None:
                    continue
                if reply.stage == "refused":
                    refused[node] = str(reply.facts.get("code"))
                else:
                    good[node] = reply
            waiting = {n: d for n, d in waiting.items() if n not in good and n not in refused}
            if not waiting:
                break
        return good, refused


def _reply_to(sent: bytes, letter: Letter, data: bytes) -> Letter | None:
    """The reply, if it is one to this very letter; a stale or broken one is none."""
    try:
        reply = Letter.of_bytes(data)
    except FedcoverError:
        return None
    if reply.facts.get("of") != digest(sent):
        return None
    same = reply.stage == letter.stage and reply.run == letter.run
    return reply if reply.stage == "refused" or same else None


def _budget(privacy: Privacy) -> dict[str, Any]:
    return {k: getattr(privacy, k) for k in ("epsilon", "delta", "unit", "relation", "view")}


def _too_few(found: int, quorum: int) -> FedcoverError:
    return FedcoverError(
        f"{found} sites are there",
        allowed=f"at least {quorum}, the quorum",
        fix="Start the others, wait for them, or lower the quorum",
    )

"""The server on the network: an engine whose sites are elsewhere, whatever happens on the way.

    hello    who is there, with which classes, score and how many records
    ask      a round of the method: all sites, resent to those that do not answer
    sum      the same as a secure sum, which goes on with the sites that are left
    finish   what was published; every site makes its own calibration

A site that answers what cannot be, or something of another round, counts as not having answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcover import checks
from fedcover._io.facts import digest
from fedcover.engines.base import (
    Asked,
    Engine,
    Outcome,
    Publication,
    Traffic,
    drive,
    queries_of,
    sum_replies,
    usual_survivors,
)
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.codes import CODES, refused_by
from fedcover.engines.remote.envelope import Envelope, checked_run
from fedcover.engines.remote.handshake import Members, as_before, introduction
from fedcover.engines.remote.heads import KEY, Head, LedgerHeads, head_of, is_older
from fedcover.engines.remote.result_message import (
    check_levels,
    check_publishable,
    result_header,
    result_message,
)
from fedcover.engines.remote.transport import Node, RetryPolicy, Transport, request_all
from fedcover.errors import FedcoverError
from fedcover.members import Federation, two_of_a_name
from fedcover.methods.base import Message, Method, Round, SumRound, Task, checked_certify
from fedcover.methods.registry import entry_of, for_real_sites, names
from fedcover.methods.sketch.method import Sketch
from fedcover.privacy.statement import Privacy
from fedcover.site import Site


@dataclass
class Coordinator(Engine):
    """Drives one run with sites that are elsewhere.

    It is an engine like any other: ``fedcover.collect(engine=Coordinator(...))``, without sites.

    Attributes
    ----------
    transport
        What carries the envelopes.
    run_name
        Name of the run; the same again repeats it, and costs nothing. Seeded choices follow from
        it where no seed is given.
    retry
        How long to wait, how often to ask again, and how many sites must be there.
    checkpoint
        Where finished rounds are kept; None for nowhere.
    heads
        File for the heads of the sites' ledgers, the same for all runs: a ledger that was put back
        to an older copy is refused. None for no file.
    roster
        Public keys of the sites, by name; needed for secure sums.
    min_survivors
        The fewest sites that may be left in a secure sum; None for two thirds of them, or as many
        more as the budget's `conspirators` ask for.
    key
        The private key with which it signs what it publishes; None to publish it unsigned.
    alpha, certify
        Of a collection: the levels at which every site personalises it, and how surely.
    on_progress
        Called with (rounds done, most rounds) after every round.
    nodes
        The node of every site that is there.
    missing
        Who is not there, or left, and why, in words.
    traffic
        Rounds and bytes so far, those of an interrupted run included.
    publication
        What was published, once it was.
    informed
        The sites that have it.
    first_met
        Sites with a ledger of which no earlier head is known: an older copy would not be noticed.
    """

    transport: Transport
    run_name: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    checkpoint: Checkpoint | None = None
    heads: str | Path | None = None
    roster: Any = None
    min_survivors: int | None = None
    key: Any = None
    alpha: float | Sequence[float] = (0.1,)
    certify: float | None = None
    on_progress: Callable[[int, int], None] = lambda done, most: None
    nodes: dict[str, Node] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    publication: Publication | None = None
    informed: list[str] = field(default_factory=list)
    first_met: list[str] = field(default_factory=list)
    _members: Members = field(default_factory=dict)
    _heads: LedgerHeads | None = field(default=None, init=False)

    seconds_per_round = 5.0
    elsewhere = True

    def __post_init__(self) -> None:
        checked_run(self.run_name)
        self._heads = None if self.heads is None else LedgerHeads(Path(self.heads))
        checks.alphas(self.alpha)
        checked_certify(self.certify, Sketch())
        if self.min_survivors is not None:
            checks.whole(self.min_survivors, "min_survivors", 1)

    def meet(
        self, sites: Sequence[Site] | None, method: Method | None, privacy: Privacy | None
    ) -> Federation:
        """Says hello: who is there, and what everybody may know of them."""
        if sites is not None:
            raise FedcoverError(
                "sites in this process, and an engine whose sites are elsewhere",
                allowed="no sites with a Coordinator",
                fix="Leave sites out: those that say hello take part",
            )
        if method is None:
            raise FedcoverError(
                "method='auto' for sites that are elsewhere",
                allowed="a method by name: the sites must agree to it before they say who they are",
                fix="Choose one of " + ", ".join(names()),
            )
        name = for_real_sites(entry_of(method).name).name
        check_publishable(method)
        if privacy is not None and privacy.secure_sum and self.roster is None:
            raise FedcoverError(
                "view='secure-sum', and a Coordinator without roster",
                allowed="roster: the public keys of all sites, by name",
                fix="Give it, or choose view='server', which needs more noise",
            )
        members = self.hello(name, privacy)
        ordered = [members[name] for name in sorted(members)]
        if privacy is None or not privacy.secure_sum:
            return Federation.of(ordered)
        fewest = self.min_survivors or usual_survivors(len(ordered), privacy.conspirators)
        federation = Federation.of(ordered, fewest)
        # A sum that no site would take part in is refused now, and leaves no checkpoint.
        from fedcover.securesum import SumSpec

        parties = (fewest, privacy.conspirators)
        SumSpec(self.run_name, federation.sites, {"sum": (1,)}, None, *parties)
        return federation

    def run(self, method: Method, task: Task, sites: Sequence[Site] | None) -> Outcome:
        """Both halves of a method to the end; finished rounds are played back, not repeated."""
        for alphas in (task.alphas, checks.alphas(self.alpha)):
            check_levels(alphas, task.n_classes)
        if task.seed is None:  # the same run must make the same choices, or it asks other queries
            task = replace(task, seed=int(digest(self.run_name)[:8], 16))
        done = 0

        def ask(number: int, asked: Asked) -> Round:
            nonlocal done
            if number == 0:  # not before: a task that the method refuses leaves no checkpoint
                done = self._begin(method, task)
                if done and getattr(method, "noise_at_server", False):
                    raise self._noise_anew(method)
            if self.checkpoint is not None and number < done:
                replies = self.checkpoint.replies(number, queries_of(asked), self.traffic)
                if isinstance(asked, SumRound) and "sum" not in replies:  # kept by version 0.1
                    replies = {"sum": sum_replies(asked, replies, task.sites)}
            else:
                replies = self._round(asked, task, number)
            self.traffic.rounds = number + 1
            self.on_progress(number + 1, method.most_rounds)
            return replies

        return Outcome(drive(method.server(task), ask), self.traffic)

    def finish(self, publication: Publication) -> None:
        """Sends every site what was published; who has it stands in `informed` afterwards."""
        self.publication = publication
        messages = result_message(publication)
        # Who was lost may be back, and is asked once: all resends would be waited for in vain.
        lost = self.missing.keys() & set(messages)
        retry = replace(self.retry, resends=0) if lost else self.retry
        header = result_header(publication, checks.alphas(self.alpha), self.certify)
        self.inform(messages, header, retry)

    def inform(
        self,
        messages: Mapping[str, Message],
        header: Mapping[str, Any],
        retry: RetryPolicy | None = None,
    ) -> list[str]:
        """Sends the last messages of a run; the names of the sites that took them."""
        retry = retry or self.retry
        number = self.traffic.rounds
        headers = {name: self._signed(name, header, m) for name, m in messages.items()}
        envelopes = self._envelopes("finish", messages, number, headers)
        replies, refused = self._exchange(envelopes, retry)
        for name in envelopes:
            if name in refused:
                self.missing[name] = CODES[refused[name]][0]
            elif name not in replies:
                self.missing[name] = f"did not take the result {retry.description}"
        self.informed = sorted(replies)
        return self.informed

    def _signed(self, site: str, header: Mapping[str, Any], message: Message) -> Mapping[str, Any]:
        if self.key is None:
            return header
        from fedcover.engines.remote.publication import signed_header

        return signed_header(self.key, self.run_name, site, header, message)

    def hello(self, method: str, privacy: Privacy | None) -> Members:
        """The sites of this run, by what they say of themselves."""
        header = {"method": method, "privacy": None if privacy is None else privacy.to_facts()}
        known = {} if self._heads is None else self._heads.known()
        header |= {} if self._heads is None else {KEY: None}
        told: dict[str, Head | None] = {}
        envelopes = {node: Envelope("hello", self.run_name, 0, header) for node in self._present()}
        replies, refused = request_all(self.transport, envelopes, self.retry)
        self.nodes, self.missing = {}, {}
        found: Members = {}
        for node in envelopes:
            if node in refused:
                self.missing[f"node {node}"] = CODES[refused[node]][0]
            elif node not in replies:
                self.missing[f"node {node}"] = f"did not answer {self.retry.description}"
            elif (member := introduction(replies[node].header)) is None:
                self.missing[f"node {node}"] = "said things of itself that cannot be"
            elif member.name in found:
                raise two_of_a_name(member.name)
            elif is_older(now := head_of(replies[node].header), known.get(member.name)):
                self.missing[member.name] = CODES["ledger"][0]
            else:
                told[member.name] = now
                found[member.name] = member
                self.nodes[member.name] = node
        if len(found) < self.retry.quorum:
            if refused:
                node, code = next(iter(refused.items()))
                raise refused_by(f"node {node}", code)
            raise self._too_few(len(found))
        self._meet_ledgers({n: head for n, head in told.items() if head and n not in known})
        self._members = self._as_begun(found)
        self.traffic = Traffic.of(tuple(self._members))
        return self._members

    def _meet_ledgers(self, told: dict[str, Head]) -> None:
        """Remembers ledgers that were not known. Of others, the site is first to say that it is so:
        a longer one may be another one."""
        self.first_met = sorted(told)
        if self._heads is not None:
            self._heads.keep(told)

    def _present(self) -> list[Node]:
        """The nodes, once there are enough: they connect when they like."""
        until = time.monotonic() + self.retry.seconds
        while len(nodes := self.transport.nodes()) < self.retry.quorum:
            if time.monotonic() > until:
                raise self._too_few(len(nodes))
            time.sleep(0.5)
        return nodes

    def _as_begun(self, found: Members) -> Members:
        """Those that are there; in a run that is repeated, those that it began with."""
        known = self.checkpoint.known() if self.checkpoint is not None else None
        if known is None:
            return found
        before = as_before(self.run_name, found, known.get("sites"))
        for name in sorted(set(found) - set(before)):
            self.missing[name] = "is not of this run, which began without it"
            del self.nodes[name]
        for name in sorted(set(before) - set(found)):
            self.missing.setdefault(name, "was there when this run began, and is not now")
        return before

    def _begin(self, method: Method, task: Task) -> int:
        if self.checkpoint is None:
            return 0
        facts = {
            "run": self.run_name,
            "method": repr(method),
            "sites": {name: member.to_facts() for name, member in self._members.items()},
            "levels": task.alphas,
            "targets": [t.name for t in task.targets],
            "seed": task.seed,
            "threshold": task.min_survivors,
            "budget": None if task.privacy is None else task.privacy.to_facts(),
        }
        return self.checkpoint.begin(facts)

    def _round(self, asked: Asked, task: Task, number: int) -> dict[str, Message]:
        before, queries = asdict(self.traffic), queries_of(asked)
        if isinstance(asked, SumRound):
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

    def _sum(self, asked: SumRound, task: Task, number: int) -> Message:
        """One round as a secure sum where who looks may see no more; else added up here."""
        privacy = task.privacy
        if privacy is None or not privacy.secure_sum or self.roster is None:
            return sum_replies(asked, self._ask(asked.queries, number), task.sites)
        # Secure sums need an extra, and are slow to import: only who makes one asks for it.
        from os import urandom

        from fedcover.engines.remote.secure_rounds import secure_total
        from fedcover.securesum import SumSpec

        question = next(iter(asked.queries.values()))
        terms = SumSpec(
            run=f"{self.run_name}/{number}/{urandom(6).hex()}",
            sites=tuple(asked.queries),
            shapes=asked.shapes,
            query=question,
            threshold=task.noise_sites,
            conspirators=privacy.conspirators,
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
        envelopes = self._envelopes(phase, queries, number, {})
        replies, refused = self._exchange(envelopes, self.retry)
        out = {}
        for name, reply in replies.items():
            assert reply.payload is not None  # or it would not count as a reply
            out[name] = reply.payload
            self.traffic.bytes_down[name] += len(envelopes[name].to_bytes())
            self.traffic.bytes_up[name] += len(reply.to_bytes())
        return out, refused

    def _envelopes(
        self,
        phase: str,
        messages: Mapping[str, Message],
        number: int,
        headers: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Envelope]:
        """Messages to sites, each with the last head of its ledger that is known here."""
        said = {name: dict(headers.get(name, {})) for name in messages}
        if self._heads is not None:
            known = self._heads.known()
            for name in said:
                said[name][KEY] = known.get(name)
        return {
            name: Envelope(phase, self.run_name, number, said[name], message)
            for name, message in messages.items()
        }

    def _exchange(
        self, envelopes: Mapping[str, Envelope], retry: RetryPolicy
    ) -> tuple[dict[str, Envelope], dict[str, str]]:
        """Good replies by site, and codes of refusals; a site without a node is silent."""
        by_node = {node: name for name, node in self.nodes.items() if name in envelopes}
        asked = {node: envelopes[name] for node, name in by_node.items()}
        replies, refused = request_all(self.transport, asked, retry)
        found = {by_node[node]: reply for node, reply in replies.items()}
        bad = {by_node[node]: code for node, code in refused.items()}
        told = {name: head_of(reply.header) for name, reply in found.items()}
        bad |= {n: "ledger" for n in told if is_older(told[n], head_of(envelopes[n].header))}
        if self._heads is not None:
            self._heads.keep({n: head for n, head in told.items() if head and n not in bad})
        return {n: found[n] for n in envelopes if n in found and n not in bad}, bad

    def _noise_anew(self, method: Method) -> FedcoverError:
        return FedcoverError(
            f"run {self.run_name!r} once more, with method {method.label}",
            allowed="one run under a name: the server would draw its noise anew, and spend ε twice",
            fix="Start under another name, and count the ε of both",
        )

    def _too_few(self, found: int) -> FedcoverError:
        why = "".join(f"; {name} {reason}" for name, reason in list(self.missing.items())[:5])
        return FedcoverError(
            f"{found} sites are there{why}",
            allowed=f"at least {self.retry.quorum}, the quorum",
            fix="Start the others, wait for them, or lower the quorum",
        )

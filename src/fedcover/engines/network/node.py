"""A site on the network: takes a letter, gives a letter, and tells nobody why it refuses.

Whatever goes wrong here, what leaves is one of the words of `codes`; the reason goes to the site's
log. The site believes its own configuration, ledger and memory; of the server's claims it checks
what it can and charges itself by what it finds in the query.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcover.engines.network.codes import Refusal, code_of
from fedcover.engines.network.letters import Letter, digest
from fedcover.engines.network.memory import Memory
from fedcover.engines.network.published import calibration_from
from fedcover.engines.network.rules import Rules, method_of
from fedcover.errors import FedcoverError
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.statement import Privacy
from fedcover.protocols.message import Message
from fedcover.site import Site

if TYPE_CHECKING:
    from fedcover.securesum import Participant, Terms


@dataclass(frozen=True)
class SiteNode:
    """One site, ready to answer letters.

    Attributes
    ----------
    site
        Its calibration records.
    memory
        Its folder for state and log.
    rules
        What it accepts.
    ledger
        Its privacy budget; None if it keeps none.
    participant
        Its identity for secure sums; None if it takes part in none.
    out
        Where it writes its calibration; None to write none.
    """

    site: Site
    memory: Memory
    rules: Rules = field(default_factory=Rules)
    ledger: Ledger | None = None
    participant: Participant | None = None
    out: Path | None = None

    def handle(self, request: bytes) -> bytes:
        """The reply to a letter; always a letter, never an exception."""
        return guarded(request, self.memory, self._answer)

    def _answer(self, letter: Letter) -> Letter:
        with self.memory.locked():
            if letter.stage == "hello":
                return self._hello(letter)
            agreed = self.memory.agreed(letter.run)
            if agreed is None:
                raise FedcoverError(
                    f"a letter of run {letter.run!r}, which has not said hello here",
                    allowed="letters of a run that began with a hello",
                    fix="Start the run again",
                )
            if letter.stage == "ask":
                return self._ask(letter, agreed)
            if letter.stage == "sum":
                return self._sum(letter, agreed)
            if letter.stage == "finish":
                return self._finish(letter)
        raise FedcoverError(
            f"a letter of stage {letter.stage!r}", allowed="letters of a server", fix="Ignore it"
        )

    def _hello(self, letter: Letter) -> Letter:
        """Checks what the run is to be, and says what everybody may know of this site."""
        privacy = privacy_of(letter.facts.get("privacy"))
        method = letter.facts.get("method")
        self.rules.check_method(method)
        self.rules.check_privacy(privacy)
        facts: dict[str, Any] = {
            "name": self.site.name,
            "n_classes": self.site.n_classes,
            "score": self.site.score.spec() if self.site.score else None,
            "temperature": self.site.temperature,
            "label_names": self.site.label_names,
        }
        if privacy is None or (privacy.relation, privacy.unit) == ("replace", "record"):
            facts["records"] = len(self.site)
        self.memory.agree(letter.run, {"method": method, "private": privacy is not None})
        return Letter("hello", letter.run, letter.number, facts)

    def _ask(self, letter: Letter, agreed: dict[str, Any]) -> Letter:
        reply = self._reply(letter, _body(letter), agreed, view="server", shares=1)
        return Letter("ask", letter.run, letter.number, {}, reply)

    def _reply(
        self, letter: Letter, query: Message, agreed: dict[str, Any], view: str, shares: int
    ) -> Message:
        """The answer to a query, charged to the ledger before it is handed out."""
        method = method_of(query.kind, agreed["method"])
        if self.ledger is None:
            return method.answer(query, self.site)
        if not agreed["private"]:
            raise Refusal(
                "privacy",
                "a run without a budget, at a site with a ledger",
                allowed="runs with epsilon",
                fix="Take `ledger` out of this site's configuration, if exact counts may leave it",
            )
        budget = self.ledger.state().budget
        privacy = Privacy(budget.epsilon, budget.delta, budget.unit, budget.relation, view)
        events = method.charges(query, privacy, shares)
        name = f"{letter.run}/{self.site.name}/{letter.number}/{query.kind}"
        return self.ledger.answer(name, query, events, lambda: method.answer(query, self.site))

    def _sum(self, letter: Letter, agreed: dict[str, Any]) -> Letter:
        """One stage of a secure sum."""
        if self.participant is None:
            raise Refusal(
                "agreement",
                "a secure sum, at a site without identity and roster",
                allowed="secure sums at sites with `key` and `roster`",
                fix="Add both to this site's configuration",
            )

        def contribute(terms: Terms) -> Message:
            self.rules.check_sum(terms.needed)
            if not terms.run.startswith(_round(letter) + "/"):
                raise FedcoverError(
                    "a secure sum that is not of this run and round",
                    allowed="the sum of the round under way",
                    fix="Start the run again",
                )
            return self._reply(letter, terms.question, agreed, "secure-sum", terms.needed)

        body = _body(letter)
        survivors = self._same_survivors(letter, body)
        try:
            reply, state = self.participant.answer(body, self.memory.sum_state(), contribute)
        except FedcoverError as error:
            if code_of(error) != "query":
                raise
            facts = {"allowed": error.allowed, "fix": error.fix}
            raise Refusal("agreement", error.given, **facts) from error
        if survivors is not None:
            self.memory.keep_survivors(_round(letter), survivors)
        self.memory.keep_sum_state(state)
        return Letter("sum", letter.run, letter.number, {}, reply)

    def _same_survivors(self, letter: Letter, body: Message) -> list[str] | None:
        """The sites whose sum is to be opened, in the stage that tells; the same in every repeat.

        A repeated run sends the same noisy numbers. Two sums of them over different sites would
        differ by single replies, each with only its own share of the noise.
        """
        from fedcover.securesum import messages

        if messages.stage_of(body) != "agree":
            return None
        listed = sorted(messages.read_names(body, "survivors"))
        before = self.memory.survivors(_round(letter))
        if before is not None and before != listed:
            raise Refusal(
                "agreement",
                "the sum of this round over other sites than before",
                allowed="the same sites, since the same noisy numbers are summed",
                fix="Repeat the run with the same sites, or under a new name and with new budget",
            )
        return listed

    def _finish(self, letter: Letter) -> Letter:
        """What was published: made into this site's own calibration, here."""
        if self.out is not None:
            calibration = calibration_from(_body(letter), letter.facts, self.site)
            calibration.save(self.out)
        return Letter("finish", letter.run, letter.number)


def guarded(request: bytes, memory: Memory | None, answer: Callable[[Letter], Letter]) -> bytes:
    """The reply of `answer` with what it replies to; a code instead of whatever is raised."""
    letter = Letter("refused", "unknown")
    try:
        letter = Letter.of_bytes(request)
        reply = answer(letter)
    except Exception as error:
        if memory is not None:
            when = datetime.now(UTC).isoformat(timespec="seconds")
            memory.log(f"{when} {letter.stage} {letter.run!r}: {error}")
            if not isinstance(error, FedcoverError):
                memory.log(traceback.format_exc())
        reply = Letter("refused", letter.run, letter.number, {"code": code_of(error)})
    facts = {**reply.facts, "of": digest(request)}
    return Letter(reply.stage, reply.run, reply.number, facts, reply.body).to_bytes()


def privacy_of(facts: object) -> Privacy | None:
    """A budget as it travels in a hello."""
    if facts is None:
        return None
    keys = {"epsilon", "delta", "unit", "relation", "view"}
    if not isinstance(facts, dict) or set(facts) != keys:
        raise FedcoverError(
            "a hello with a privacy budget that is none",
            allowed=", ".join(sorted(keys)),
            fix="Server and site run different versions of fedcover",
        )
    return Privacy(**facts)


def _body(letter: Letter) -> Message:
    if letter.body is None:
        raise FedcoverError(
            f"a letter of stage {letter.stage!r} without a message",
            allowed="a message",
            fix="Server and site run different versions of fedcover",
        )
    return letter.body


def _round(letter: Letter) -> str:
    """Name of a round of a run, the same when the run is repeated."""
    return f"{letter.run}/{letter.number}"

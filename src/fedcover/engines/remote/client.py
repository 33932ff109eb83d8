"""A site on the network: takes a letter, gives a letter, and tells nobody why it refuses.

Whatever goes wrong here, what leaves is one of the words of `codes`; the reason goes to the site's
log. The site believes its own configuration, ledger and memory; of the server's claims it checks
what it can and charges itself by what it finds in the query.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.codes import Refusal, code_of
from fedcover.engines.remote.envelope import Envelope, digest
from fedcover.engines.remote.policy import SitePolicy, check_remaining_budget, method_of
from fedcover.engines.remote.result_message import calibration_from
from fedcover.errors import FedcoverError
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.statement import Privacy
from fedcover.site import Site
from fedcover.wire import Message

if TYPE_CHECKING:
    from fedcover.securesum import Participant, SumSpec


@dataclass(frozen=True)
class Client:
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
    memory: ClientState
    rules: SitePolicy = field(default_factory=SitePolicy)
    ledger: Ledger | None = None
    participant: Participant | None = None
    out: Path | None = None

    def handle(self, request: bytes) -> bytes:
        """The reply to a letter; always a letter, never an exception."""
        return guarded(request, self.memory, self._answer)

    def _answer(self, letter: Envelope) -> Envelope:
        with self.memory.locked():
            self.memory.claim(self.site.name)
            if letter.phase == "hello":
                return self._hello(letter)
            agreed = self.memory.agreed(letter.run)
            if agreed is None:
                raise Refusal(
                    "hello",
                    f"a letter of run {letter.run!r}, which has not said hello here",
                    allowed="letters of a run that began with a hello",
                    fix="Start the run again",
                )
            privacy = self._accepted(agreed.get("method"), agreed.get("privacy"))
            if letter.phase == "ask":
                query = _payload(letter)
                reply = self._reply(letter, query, agreed["method"], privacy, "server", 1)
                return Envelope("ask", letter.run, letter.number, {}, reply)
            if letter.phase == "sum":
                return self._sum(letter, agreed["method"], privacy)
            if letter.phase == "finish":
                return self._finish(letter)
        raise FedcoverError(
            f"a letter of phase {letter.phase!r}", allowed="letters of a server", fix="Ignore it"
        )

    def _accepted(self, method: object, privacy_facts: object) -> Privacy | None:
        """The budget of a run whose method and budget the rules of today allow."""
        privacy = privacy_of(privacy_facts)
        self.rules.check_method(method)
        self.rules.check_privacy(privacy, self.ledger is not None)
        return privacy

    def _hello(self, letter: Envelope) -> Envelope:
        """Checks what the run is to be, and says what everybody may know of this site."""
        method = letter.header.get("method")
        privacy = self._accepted(method, letter.header.get("privacy"))
        if self.ledger is not None and privacy is not None:
            check_remaining_budget(self.ledger.state(), privacy, letter.run)
        facts: dict[str, Any] = {
            "name": self.site.name,
            "n_classes": self.site.n_classes,
            "score": self.site.score.spec() if self.site.score else None,
            "temperature": self.site.temperature,
            "label_names": self.site.label_names,
        }
        if privacy is None or self._size_is_public(privacy):
            facts["records"] = len(self.site)
        said = None if privacy is None else asdict(privacy)
        self.memory.agree(letter.run, {"method": method, "privacy": said})
        return Envelope("hello", letter.run, letter.number, facts)

    def _size_is_public(self, privacy: Privacy) -> bool:
        """Whether the number of records is the same in all neighbouring data, for both sides."""
        named = {(privacy.relation, privacy.unit)}
        if self.ledger is not None:
            budget = self.ledger.state().budget
            named.add((budget.relation, budget.unit))
        return named == {("replace", "record")}

    def _reply(
        self,
        letter: Envelope,
        query: Message,
        run_method: str,
        announced: Privacy | None,
        view: str,
        shares: int,
    ) -> Message:
        """The answer to a query, charged to the ledger before it is handed out."""
        method = method_of(query.kind, run_method)
        if announced is None:
            return method.answer(query, self.site)
        budget = announced if self.ledger is None else self.ledger.state().budget
        privacy = Privacy(budget.epsilon, budget.delta, budget.unit, budget.relation, view)
        events = method.charges(query, privacy, shares)
        if self.ledger is None:
            self.rules.check_promise(events, privacy)
            return method.answer(query, self.site)
        name = self._name(letter, query)
        return self.ledger.answer(name, query, events, lambda: method.answer(query, self.site))

    def _name(self, letter: Envelope, query: Message) -> str:
        """Of a query in the ledger."""
        return f"{letter.run}/{self.site.name}/{letter.number}/{query.kind}"

    def _sum(self, letter: Envelope, run_method: str, privacy: Privacy | None) -> Envelope:
        """One stage of a secure sum."""
        if self.participant is None:
            raise Refusal(
                "agreement",
                "a secure sum, at a site without identity and roster",
                allowed="secure sums at sites with `key` and `roster`",
                fix="Add both to this site's configuration",
            )
        from fedcover.engines.remote.secure_rounds import SecureSumSession

        def answered(terms: SumSpec) -> bool:
            name = self._name(letter, terms.question)
            return self.ledger is not None and self.ledger.state().answer_to(name) is not None

        def contribute(terms: SumSpec) -> Message:
            facts = (run_method, privacy, "secure-sum", terms.needed)
            return self._reply(letter, terms.question, *facts)

        summing = SecureSumSession(
            participant=self.participant,
            memory=self.memory,
            round_=f"{letter.run}/{letter.number}",
            accept=lambda terms: self.rules.check_sum(terms.needed),
            answered=answered,
            contribute=contribute,
        )
        return Envelope("sum", letter.run, letter.number, {}, summing.reply(_payload(letter)))

    def _finish(self, letter: Envelope) -> Envelope:
        """What was published: made into this site's own calibration, here."""
        make = calibration_from(_payload(letter), letter.header, self.site)
        if self.out is not None:
            try:
                calibration = make()
            except Exception:  # it looks at this site's label mix: that it failed must not travel
                self.memory.log(traceback.format_exc())
            else:
                calibration.save(self.out)
        return Envelope("finish", letter.run, letter.number)


def guarded(
    request: bytes, memory: ClientState | None, answer: Callable[[Envelope], Envelope]
) -> bytes:
    """The reply of `answer` with what it replies to; a code instead of whatever is raised."""
    letter = Envelope("refused", "unknown")
    try:
        letter = Envelope.of_bytes(request)
        return _replying(answer(letter), request)
    except Exception as error:
        if memory is not None:
            with suppress(Exception):  # such as a text that cannot be made of what was raised
                when = datetime.now(UTC).isoformat(timespec="seconds")
                text = f"{when} {letter.phase} {letter.run!r}: {error}"
                memory.log(" ".join(text.splitlines()))
                if not isinstance(error, FedcoverError):
                    memory.log(traceback.format_exc())
        code = {"code": code_of(error)}
        return _replying(Envelope("refused", letter.run, letter.number, code), request)


def _replying(reply: Envelope, request: bytes) -> bytes:
    """The bytes of a reply, which say what it replies to."""
    facts = {**reply.header, "of": digest(request)}
    return Envelope(reply.phase, reply.run, reply.number, facts, reply.payload).to_bytes()


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


def _payload(letter: Envelope) -> Message:
    if letter.payload is None:
        raise FedcoverError(
            f"a letter of phase {letter.phase!r} without a message",
            allowed="a message",
            fix="Server and site run different versions of fedcover",
        )
    return letter.payload

"""A site on the network: takes an envelope, gives an envelope, and tells nobody why it refuses.

Whatever goes wrong here, what leaves is one of the words of `codes`; the reason goes to the site's
log. The site believes its own configuration, ledger and memory; of the server's claims it checks
what it can and charges itself by what it finds in the query.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcover.engines.base import charged_answer, query_id
from fedcover.engines.remote import heads
from fedcover.engines.remote.belief import Known, rounds_of
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.codes import Refusal, code_of
from fedcover.engines.remote.envelope import Envelope, digest
from fedcover.engines.remote.policy import SitePolicy, check_remaining_budget, site_half
from fedcover.engines.remote.publication import checked_signature
from fedcover.engines.remote.result_message import calibration_from
from fedcover.errors import FedcoverError
from fedcover.members import Member
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.statement import Privacy
from fedcover.signature import Signature
from fedcover.site import Site
from fedcover.wire import Message

if TYPE_CHECKING:
    from fedcover.identity import Identity, Roster
    from fedcover.securesum import Participant, SumSpec


@dataclass(frozen=True)
class Client:
    """One site, ready to answer envelopes.

    Attributes
    ----------
    site
        Its calibration records.
    state
        Its folder for state and log.
    policy
        What it accepts.
    ledger
        Its privacy budget; None if it keeps none, and then it answers only if the policy is exact.
    participant
        Its identity for secure sums; None if it takes part in none.
    out
        Where it writes its calibration; None to write none.
    identity
        The key with which it signs its calibration; None to leave it unsigned.
    coordinator
        The coordinator's public keys, under the name "coordinator"; None to believe unsigned
        results.
    """

    site: Site
    state: ClientState
    policy: SitePolicy = field(default_factory=SitePolicy)
    ledger: Ledger | None = None
    participant: Participant | None = None
    out: Path | None = None
    identity: Identity | None = None
    coordinator: Roster | None = None

    def __post_init__(self) -> None:
        if self.ledger is not None:
            self.ledger.state().budget.check_records(len(self.site))

    def handle(self, request: bytes) -> bytes:
        """The reply to an envelope; always an envelope, never an exception."""
        return guarded(request, self.state, self._with_head)

    def _with_head(self, envelope: Envelope) -> Envelope:
        """The reply, with the head of the ledger for a server that asks for it; see `heads`."""
        if heads.KEY not in envelope.header:
            return self._answer(envelope)
        known = heads.head_of(envelope.header)
        if known is not None and (self.ledger is None or not self.ledger.state().contains(*known)):
            raise Refusal(
                "ledger",
                f"a message of a server that knows this site's ledger with {known[0]} entries and "
                f"the head {known[1]}",
                allowed="a ledger that has been there",
                fix="Was the ledger put back from a copy, or made anew? Bring back the one that "
                "was in use. A server that says so wrongly is the server's to mend",
            )
        plain = {key: fact for key, fact in envelope.header.items() if key != heads.KEY}
        reply = self._answer(replace(envelope, header=plain))
        if self.ledger is None:
            return reply
        state = self.ledger.state()
        head = [len(state.entries), state.head]
        return replace(reply, header={**reply.header, heads.KEY: head})

    def _answer(self, envelope: Envelope) -> Envelope:
        with self.state.locked():
            self.state.claim(self.site.name)
            if envelope.phase == "hello":
                return self._hello(envelope)
            agreed = self.state.agreed(envelope.run)
            if agreed is None:
                raise Refusal(
                    "hello",
                    f"a message of run {envelope.run!r}, which has not said hello here",
                    allowed="messages of a run that began with a hello",
                    fix="Start the run again",
                )
            privacy = self._accepted(agreed.get("method"), agreed.get("privacy"))
            if envelope.phase == "ask":
                query = _payload(envelope)
                reply = self._reply(envelope, query, agreed["method"], privacy, "server", 1, 1)
                return Envelope("ask", envelope.run, envelope.number, {}, reply)
            if envelope.phase == "sum":
                return self._sum(envelope, agreed["method"], privacy)
            if envelope.phase == "finish":
                return self._finish(envelope, agreed["method"], privacy)
        raise FedcoverError(
            f"an envelope of phase {envelope.phase!r}",
            allowed="envelopes of a server",
            fix="Ignore it",
        )

    def _accepted(self, method: object, privacy_facts: object) -> Privacy | None:
        """The budget of a run whose method and budget the rules of today allow."""
        privacy = privacy_of(privacy_facts)
        self.policy.check_method(method)
        self.policy.check_privacy(privacy, self.ledger is not None)
        return privacy

    def _hello(self, envelope: Envelope) -> Envelope:
        """Checks what the run is to be, and says what everybody may know of this site."""
        method = envelope.header.get("method")
        privacy = self._accepted(method, envelope.header.get("privacy"))
        if self.ledger is not None and privacy is not None:
            check_remaining_budget(self.ledger.state(), privacy, envelope.run)
        public = privacy is None or self._size_is_public(privacy)
        facts = Member.of(self.site, with_records=public).to_facts()
        said = None if privacy is None else privacy.to_facts()
        self.state.agree(envelope.run, {"method": method, "privacy": said})
        return Envelope("hello", envelope.run, envelope.number, facts)

    def _size_is_public(self, privacy: Privacy) -> bool:
        """Whether the number of records is the same in all neighbouring data, for both sides."""
        named = {(privacy.relation, privacy.unit)}
        if self.ledger is not None:
            budget = self.ledger.state().budget
            named.add((budget.relation, budget.unit))
        return named == {("replace", "record")}

    def _reply(
        self,
        envelope: Envelope,
        query: Message,
        run_method: str,
        announced: Privacy | None,
        view: str,
        noise_sites: int,
        conspirators: int,
    ) -> Message:
        """The answer to a query, charged to the ledger before it is handed out."""
        method: Any = site_half(query.kind, run_method)
        if announced is None:
            exact: Message = method.answer(query, self.site)
            return exact
        if self.ledger is None:
            # Nobody adds up here, but a message that is repeated is no second draw of noise.
            name = self._query_id(envelope, query)
            return self.state.repeated(name, query, lambda: method.answer(query, self.site))
        return charged_answer(
            method,
            query,
            self.site,
            ledger=self.ledger,
            query_id=self._query_id(envelope, query),
            view=view,
            noise_sites=noise_sites,
            conspirators=conspirators,
        )

    def _query_id(self, envelope: Envelope, query: Message) -> str:
        return query_id(envelope.run, self.site.name, envelope.number, query)

    def _sum(self, envelope: Envelope, run_method: str, privacy: Privacy | None) -> Envelope:
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
            name = self._query_id(envelope, terms.query)
            return self.ledger is not None and self.ledger.state().answer_to(name) is not None

        def contribute(terms: SumSpec) -> Message:
            facts = (run_method, privacy, "secure-sum", terms.threshold, terms.conspirators)
            return self._reply(envelope, terms.query, *facts)

        summing = SecureSumSession(
            participant=self.participant,
            state=self.state,
            round_=f"{envelope.run}/{envelope.number}",
            accept=lambda t: self.policy.check_sum(t.threshold, t.conspirators, privacy),
            answered=answered,
            contribute=contribute,
        )
        return Envelope("sum", envelope.run, envelope.number, {}, summing.reply(_payload(envelope)))

    def _finish(self, envelope: Envelope, run_method: str, privacy: Privacy | None) -> Envelope:
        """What was published: made into this site's own calibration, here."""
        message = _payload(envelope)
        signatures: tuple[Signature, ...] = ()
        if self.coordinator is not None:
            latest = self.state.published()
            one, when = checked_signature(envelope, self.site.name, self.coordinator, latest)
            signatures = (one,)
        known = self._known(envelope.run, run_method, privacy)
        make = calibration_from(message, envelope.header, self.site, known)
        if signatures:
            self.state.keep_published(when)
        if self.out is not None:
            try:
                calibration = replace(make(), signatures=signatures)
            except Exception:  # it looks at this site's own data: that it failed must not travel
                self.state.log(traceback.format_exc())
            else:
                if self.identity is not None:
                    calibration = calibration.signed(self.identity, self.site.name)
                calibration.save(self.out)
        return Envelope("finish", envelope.run, envelope.number)

    def _known(self, run: str, run_method: str, privacy: Privacy | None) -> Known:
        """What this site knows of a run by itself."""
        state = None if self.ledger is None else self.ledger.state()
        rounds = () if state is None else rounds_of(state.answers, run, self.site.name)
        sums = (self.state.summed(f"{run}/{number}") for number in rounds)
        return Known(
            run=run,
            site=self.site.name,
            method=run_method,
            privacy=privacy,
            ledger=state,
            # A round that was begun when there was no such number has one conspirator.
            summed=tuple(one.get("conspirators", 1) for one in sums if one is not None),
            size_is_public=privacy is None or self._size_is_public(privacy),
            roster=None if self.participant is None else frozenset(self.participant.roster),
            least_sum=self.policy.least_sum,
        )


def guarded(
    request: bytes, memory: ClientState | None, answer: Callable[[Envelope], Envelope]
) -> bytes:
    """The reply of `answer` with what it replies to; a code instead of whatever is raised."""
    envelope = Envelope("refused", "unknown")
    try:
        envelope = Envelope.of_bytes(request)
        return _replying(answer(envelope), request)
    except Exception as error:
        if memory is not None:
            with suppress(Exception):  # such as a text that cannot be made of what was raised
                when = datetime.now(UTC).isoformat(timespec="seconds")
                text = f"{when} {envelope.phase} {envelope.run!r}: {error}"
                memory.log(" ".join(text.splitlines()))
                if not isinstance(error, FedcoverError):
                    memory.log(traceback.format_exc())
        code = {"code": code_of(error)}
        return _replying(Envelope("refused", envelope.run, envelope.number, code), request)


def _replying(reply: Envelope, request: bytes) -> bytes:
    """The bytes of a reply, which say what it replies to."""
    facts = {**reply.header, "of": digest(request)}
    return Envelope(reply.phase, reply.run, reply.number, facts, reply.payload).to_bytes()


def privacy_of(facts: object) -> Privacy | None:
    """A budget as it travels in a hello."""
    if facts is None:
        return None
    keys = {"epsilon", "delta", "unit", "relation", "view"}
    if not isinstance(facts, dict) or not keys <= set(facts) <= {*keys, "conspirators"}:
        raise FedcoverError(
            "a hello with a privacy budget that is none",
            allowed=", ".join(sorted(keys)),
            fix="Server and site run different versions of fedcover",
        )
    return Privacy(**facts)


def _payload(envelope: Envelope) -> Message:
    if envelope.payload is None:
        raise FedcoverError(
            f"an envelope of phase {envelope.phase!r} without a payload",
            allowed="a message",
            fix="Server and site run different versions of fedcover",
        )
    return envelope.payload

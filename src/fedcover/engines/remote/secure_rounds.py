"""A site's part in secure sums: the participant, and a guard over what its noisy numbers enter.

A repeated run sends the same noisy numbers. Two sums of them over different sites would differ by
single replies, each with only its own share of the noise. So all attempts at one round have the
same sites and the same threshold; and the survivors that this site has once agreed to are those of
every later attempt. Opening a sum takes the agreement of t sites with 2t > n + c: two openings of
one round have an honest site in common, and it agrees to one list.

A site cannot know whether an attempt was opened without it. The guard therefore begins when its
masked numbers leave, and it is on disk before they are charged: numbers that were charged and have
no guard are those of a site that has lost its memory, and are not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.codes import Refusal, code_of, refused_by
from fedcover.engines.remote.envelope import other_version
from fedcover.errors import FedcoverError
from fedcover.methods.base import Round
from fedcover.securesum import Participant, SumSpec, spec
from fedcover.securesum.state import State
from fedcover.wire import Message

if TYPE_CHECKING:
    from fedcover.securesum import SumSpec, Total


@dataclass(frozen=True)
class SecureSumSession:
    """One stage of a secure sum at a site.

    Attributes
    ----------
    participant, state
        The site's identity and its folder.
    round_
        The round of the run that the envelope is of; the same when the run is repeated.
    accept
        Refuses terms that the site's rules do not allow.
    answered
        Whether the site's ledger has an answer to this question of this round already.
    contribute
        The site's integers, charged.
    """

    participant: Participant
    state: ClientState
    round_: str
    accept: Callable[[SumSpec], None]
    answered: Callable[[SumSpec], bool]
    contribute: Callable[[SumSpec], Message]

    def reply(self, query: Message) -> Message:
        """The answer to a stage; everything that a later stage needs is on disk before."""
        if query.numbers.get("version") != spec.VERSION:
            raise other_version("a secure sum of another version", f"version {spec.VERSION}")
        try:
            return self._reply(query)
        except FedcoverError as error:
            if code_of(error) != "query":
                raise
            facts = {"allowed": error.allowed, "fix": error.fix}
            raise Refusal("agreement", error.given, **facts) from error

    def _reply(self, query: Message) -> Message:
        stage, state = spec.stage_of(query), self.state.sum_state()
        terms = SumSpec.of_message(query) if stage == "keys" else _terms(state)
        if terms is not None:  # else nothing is under way: the participant repeats itself, or not
            self._check(terms)
        survivors = self._survivors(query) if stage == "agree" else None
        reply, after = self.participant.answer(query, state, self._numbers)
        if survivors is not None:
            self.state.keep_summed(self.round_, survivors)
        self.state.keep_sum_state(after)
        return reply

    def _check(self, terms: SumSpec) -> None:
        if terms.run.rpartition("/")[0] != self.round_:
            raise _refused(
                "a secure sum that is not of this run and round", "the sum of the round under way"
            )
        self.accept(terms)

    def _numbers(self, terms: SumSpec) -> Message:
        """The integers of this site, whose company is settled first."""
        now = {
            "sites": sorted(terms.sites),
            "threshold": terms.threshold,
            "conspirators": terms.conspirators,
        }
        before = self.state.summed(self.round_)
        if before is None:
            if self.answered(terms):
                raise _refused(
                    "numbers that were charged before, of which this site's memory knows nothing",
                    "numbers that have not left yet, or a memory that knows with whom they were "
                    "summed",
                )
            self.state.keep_summed(self.round_, {**now, "survivors": None})
        # A round that was begun when there was no such number has one conspirator.
        elif {key: before.get(key, 1) for key in now} != now:
            raise _refused(
                "the sum of this round among other sites, or with another threshold or number of "
                "conspirators, than before",
                "the same, since the same noisy numbers are summed",
            )
        return self.contribute(terms)

    def _survivors(self, query: Message) -> dict[str, Any]:
        """The sites whose sum is to be opened, if they are the same as in an earlier attempt."""
        listed = sorted(spec.read_names(query, "survivors"))
        before = self.state.summed(self.round_)
        if before is None or before.get("survivors") not in (None, listed):
            raise _refused(
                "the sum of this round over other sites than before",
                "the same sites, since the same noisy numbers are summed",
            )
        return {**before, "survivors": listed}


def _terms(state: bytes | None) -> SumSpec | None:
    """What the sum under way is about."""
    return None if state is None else State.of_bytes(state).spec


def _refused(given: str, allowed: str) -> Refusal:
    return Refusal(
        "agreement",
        given,
        allowed=allowed,
        fix="Repeat the run with the same sites, or under a new name and with new budget",
    )


AGAIN = (
    "No vector became known. Bring these sites back and start the run again under the same name: "
    "no budget is spent twice; or leave them out, under another name"
)

Send = Callable[[Round], tuple[dict[str, Message], dict[str, str]]]
"""Queries by site to replies by site, and the codes of those that refused."""


def secure_total(
    terms: SumSpec,
    roster: Any,
    send: Send,
    before: Sequence[str] | None,
    agreeing: Callable[[Sequence[str]], None],
) -> Total:
    """The secure sum of a round.

    Parameters
    ----------
    terms, roster
        What is summed among whom, and the sites' public keys.
    send
        Carries a stage to the sites.
    before
        The survivors of an earlier attempt at this round, if it came so far: the sites will agree
        to no others, so replies of others are left out.
    agreeing
        Called with the survivors before the sites are asked to agree to them.
    """
    from fedcover.securesum import server as sum_server
    from fedcover.securesum import spec

    stages = sum_server(terms, roster)
    refused: dict[str, str] = {}
    replies: dict[str, Message] | None = None
    while True:
        try:
            queries = next(stages) if replies is None else stages.send(replies)
        except StopIteration as end:
            total: Total = end.value
            return total
        except FedcoverError as error:
            if refused:  # the sites' own words say more than a number of sites that are left
                raise refused_by(*next(iter(refused.items()))) from error
            if replies is None:
                raise
            raise FedcoverError(error.given, allowed=error.allowed, fix=AGAIN) from error
        stage = spec.stage_of(next(iter(queries.values())))
        if stage == "agree":
            agreeing(tuple(queries))
        replies, bad = send(queries)
        refused |= bad
        if stage == "masked" and before is not None:
            replies = {name: reply for name, reply in replies.items() if name in before}

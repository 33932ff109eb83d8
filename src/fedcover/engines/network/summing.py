"""A site's part in secure sums: the participant, and a guard over what its noisy numbers enter.

A repeated run sends the same noisy numbers. Two sums of them over different sites would differ by
single replies, each with only its own share of the noise. So all attempts at one round have the
same sites and the same threshold; and the survivors that this site has once agreed to are those of
every later attempt. Opening a sum takes the agreement of more than half of the sites: two openings
of one round have a site in common, and it agrees to one list.

A site cannot know whether an attempt was opened without it. The guard therefore begins when its
masked numbers leave, and it is on disk before they are charged: numbers that were charged and have
no guard are those of a site that has lost its memory, and are not sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedcover.engines.network.codes import Refusal, code_of
from fedcover.engines.network.letters import other_version
from fedcover.engines.network.memory import Memory
from fedcover.errors import FedcoverError
from fedcover.protocols.message import Message
from fedcover.securesum import Participant, Terms, messages
from fedcover.securesum.state import State


@dataclass(frozen=True)
class Summing:
    """One stage of a secure sum at a site.

    Attributes
    ----------
    participant, memory
        The site's identity and its folder.
    round_
        The round of the run that the letter is of; the same when the run is repeated.
    accept
        Refuses terms that the site's rules do not allow.
    answered
        Whether the site's ledger has an answer to this question of this round already.
    contribute
        The site's integers, charged.
    """

    participant: Participant
    memory: Memory
    round_: str
    accept: Callable[[Terms], None]
    answered: Callable[[Terms], bool]
    contribute: Callable[[Terms], Message]

    def reply(self, query: Message) -> Message:
        """The answer to a stage; everything that a later stage needs is on disk before."""
        if query.numbers.get("version") != messages.VERSION:
            raise other_version("a secure sum of another version", f"version {messages.VERSION}")
        try:
            return self._reply(query)
        except FedcoverError as error:
            if code_of(error) != "query":
                raise
            facts = {"allowed": error.allowed, "fix": error.fix}
            raise Refusal("agreement", error.given, **facts) from error

    def _reply(self, query: Message) -> Message:
        stage, state = messages.stage_of(query), self.memory.sum_state()
        terms = Terms.of_query(query) if stage == "keys" else _terms(state)
        if terms is not None:  # else nothing is under way: the participant repeats itself, or not
            self._check(terms)
        survivors = self._survivors(query) if stage == "agree" else None
        reply, after = self.participant.answer(query, state, self._numbers)
        if survivors is not None:
            self.memory.keep_summed(self.round_, survivors)
        self.memory.keep_sum_state(after)
        return reply

    def _check(self, terms: Terms) -> None:
        if terms.run.rpartition("/")[0] != self.round_:
            raise _refused(
                "a secure sum that is not of this run and round", "the sum of the round under way"
            )
        self.accept(terms)

    def _numbers(self, terms: Terms) -> Message:
        """The integers of this site, whose company is settled first."""
        now = {"sites": sorted(terms.sites), "threshold": terms.needed}
        before = self.memory.summed(self.round_)
        if before is None:
            if self.answered(terms):
                raise _refused(
                    "numbers that were charged before, of which this site's memory knows nothing",
                    "numbers that have not left yet, or a memory that knows with whom they were "
                    "summed",
                )
            self.memory.keep_summed(self.round_, {**now, "survivors": None})
        elif {key: before.get(key) for key in now} != now:
            raise _refused(
                "the sum of this round among other sites, or with another threshold, than before",
                "the same sites and threshold, since the same noisy numbers are summed",
            )
        return self.contribute(terms)

    def _survivors(self, query: Message) -> dict[str, Any]:
        """The sites whose sum is to be opened, if they are the same as in an earlier attempt."""
        listed = sorted(messages.read_names(query, "survivors"))
        before = self.memory.summed(self.round_)
        if before is None or before.get("survivors") not in (None, listed):
            raise _refused(
                "the sum of this round over other sites than before",
                "the same sites, since the same noisy numbers are summed",
            )
        return {**before, "survivors": listed}


def _terms(state: bytes | None) -> Terms | None:
    """What the sum under way is about."""
    return None if state is None else State.of_bytes(state).terms


def _refused(given: str, allowed: str) -> Refusal:
    return Refusal(
        "agreement",
        given,
        allowed=allowed,
        fix="Repeat the run with the same sites, or under a new name and with new budget",
    )

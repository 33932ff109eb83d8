"""A round as a sum: a secure one that goes on with the sites that are left, or added up here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedcover.engines.network.codes import words
from fedcover.errors import FedcoverError
from fedcover.protocols.base import Message, Round

if TYPE_CHECKING:
    from fedcover.securesum import Terms, Total

AGAIN = (
    "No vector became known. Bring these sites back and start the run again under the same name: "
    "no budget is spent twice; or leave them out, under another name"
)

Send = Callable[[Round], tuple[dict[str, Message], dict[str, str]]]
"""Queries by site to replies by site, and the codes of those that refused."""


def secure_total(
    terms: Terms,
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
    from fedcover.securesum import messages
    from fedcover.securesum import server as sum_server

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
                raise words(*next(iter(refused.items()))) from error
            if replies is None:
                raise
            raise FedcoverError(error.given, allowed=error.allowed, fix=AGAIN) from error
        stage = messages.stage_of(next(iter(queries.values())))
        if stage == "agree":
            agreeing(tuple(queries))
        replies, bad = send(queries)
        refused |= bad
        if stage == "masked" and before is not None:
            replies = {name: reply for name, reply in replies.items() if name in before}

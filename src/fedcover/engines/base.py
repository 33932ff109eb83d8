"""What an engine is, and what all engines share: the loop, the charge and the open sum.

    meet      who takes part
    run       a method's rounds, from the first query to what its server publishes
    finish    what was published goes to the sites, where they are not in this process

An engine carries messages and counts them; it knows nothing of quantiles. A new engine derives
from `Engine`, writes `run` around `drive`, and `answer` for each site.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcover.calibration import Cost
from fedcover.errors import FedcoverError
from fedcover.members import Federation, federation_of
from fedcover.methods.base import (
    Message,
    Method,
    Published,
    Round,
    ServerHalf,
    SumRound,
    Task,
    fits_a_sum,
)
from fedcover.methods.replies import reply_of
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.site import Site

Asked = Round | SumRound


@dataclass
class Traffic:
    """Rounds of a run, and the payload bytes each site sent (up) and received (down)."""

    rounds: int = 0
    bytes_up: dict[str, int] = field(default_factory=dict)
    bytes_down: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sites: Sequence[str]) -> Traffic:
        """None yet, for these sites."""
        return cls(0, dict.fromkeys(sites, 0), dict.fromkeys(sites, 0))

    def cost(self, members: Sequence[str]) -> Cost:
        """What it took, on average over some sites."""
        return Cost(
            rounds=self.rounds,
            bytes_up=round(sum(self.bytes_up[m] for m in members) / len(members)),
            bytes_down=round(sum(self.bytes_down[m] for m in members) / len(members)),
        )


@dataclass(frozen=True)
class Outcome:
    """What a run published, and what it took."""

    published: Published
    traffic: Traffic


@dataclass(frozen=True)
class Publication:
    """What the sites need to make their own calibrations, where they are elsewhere.

    Attributes
    ----------
    method, task
        What ran.
    published
        What its server published; of a collection the `SketchResult`.
    statement, cost
        What the run promises about privacy, and what it took.
    """

    method: Method
    task: Task
    published: Published
    statement: PrivacyStatement | None
    cost: Cost


class Engine(ABC):
    """Carries the rounds of a method to the sites.

    Attributes
    ----------
    seconds_per_round
        About how long a round takes, for those who choose a method by it.
    source
        Where noise takes its bytes: from the operating system, but in studies and tests.
    elsewhere
        Whether its sites are on other machines.
    """

    seconds_per_round: float = 0.0
    source: Randomness = SYSTEM
    elsewhere: bool = False

    def meet(
        self, sites: Sequence[Site] | None, method: Method | None, privacy: Privacy | None
    ) -> Federation:
        """Who takes part; here the sites of this process.

        Parameters
        ----------
        sites
            Sites in this process; None where they are elsewhere, and the engine knows them.
        method
            What will run; None where that is decided by who takes part.
        privacy
            The budget of the run. The number of records is public only where a replaced record
            leaves it as it is.
        """
        if sites is None:
            raise FedcoverError(
                f"no sites, and engine {type(self).__name__}",
                allowed="a list of sites for an engine that runs them",
                fix="Give the sites; only a Coordinator has them elsewhere",
            )
        known = privacy is None or (privacy.relation == "replace" and privacy.unit == "record")
        return federation_of(sites, known)

    @abstractmethod
    def run(self, method: Method, task: Task, sites: Sequence[Site] | None) -> Outcome:
        """Both halves of a method to the end."""

    def finish(self, publication: Publication) -> None:
        """Tells the sites what was published."""
        return  # those in this process need no telling


def drive(server: ServerHalf, ask: Callable[[int, Asked], Round]) -> Published:
    """The one loop that takes a method through its rounds; what its server publishes.

    Parameters
    ----------
    server
        The server half.
    ask
        Carries round number k to the sites and returns their replies; of a sum, under "sum".
    """
    replies: Round | None = None
    number = 0
    while True:
        try:
            asked = next(server) if replies is None else server.send(replies)
        except StopIteration as end:
            return end.value
        except FedcoverError:
            raise
        except Exception as error:
            if replies is None:
                raise
            # Replies come from other people's machines; what breaks on them is not our reader's.
            raise FedcoverError(
                f"the replies of round {number} cannot be worked with ({type(error).__name__})",
                allowed="replies that fit the queries",
                fix="Check that server and sites run the same version of fedcover; one of the "
                "sites may send wrong numbers",
            ) from error
        replies = ask(number, asked)
        number += 1


def queries_of(asked: Asked) -> Round:
    """What a round asks, whether or not it is a sum."""
    return asked.queries if isinstance(asked, SumRound) else asked


def charged_answer(
    method: Method,
    query: Message,
    site: Site,
    *,
    ledger: Ledger | None,
    query_id: str,
    view: str,
    noise_sites: int,
    conspirators: int,
    source: Randomness = SYSTEM,
) -> Message:
    """A site's reply; the one place where a ledger is charged, before the reply exists.

    Parameters
    ----------
    ledger
        The site's; None where it keeps none, and nothing is charged.
    query_id
        Name of the query in the ledger: the same name again gets the stored reply.
    view, noise_sites, conspirators
        How the reply will be seen, with the noise of how many sites, and how many of those may tell
        what they know. Unit, relation and δ of the charge are the ledger's own.
    source
        Where noise takes its bytes.
    """
    if ledger is None:
        return method.answer(query, site, source)
    budget = ledger.state().budget
    kind = (budget.unit, budget.relation, view, conspirators)
    seen = Privacy(budget.epsilon, budget.delta, *kind)
    events = method.charges(query, seen, noise_sites)
    return ledger.answer(query_id, query, events, lambda: method.answer(query, site, source))


def query_id(run: str, site: str, number: int, query: Message) -> str:
    """Name of a query in a site's ledger; a run that is repeated asks under the same names."""
    return f"{run}/{site}/{number}/{query.kind}"


def is_of_run(name: str, run: str, site: str) -> bool:
    """Whether a query of this name was asked of this site in this run."""
    begin = f"{run}/{site}/"
    number, _, kind = name.removeprefix(begin).partition("/")
    # A run called "a/mercy" has names that begin as those of site "mercy" in run "a" do.
    return name.startswith(begin) and number.isdecimal() and "/" not in kind


def usual_survivors(n_sites: int, conspirators: int) -> int:
    """How many sites a secure sum must end with unless told otherwise: two thirds of them.

    More where that is not enough against the conspirators, 2t > n + c.
    """
    return max(-(-2 * n_sites // 3), (n_sites + conspirators) // 2 + 1)


def sum_replies(asked: SumRound, replies: Mapping[str, Message], sites: Sequence[str]) -> Message:
    """The sum of replies that the server sees one by one, where it need not be secret."""
    totals = {key: np.zeros(shape, dtype=np.int64) for key, shape in asked.shapes.items()}
    kind = next(iter(asked.queries.values())).kind
    for name in asked.queries:
        arrays = asked.read(name, reply_of(replies, name))
        for key, total in totals.items():
            part = arrays.get(key, np.empty(0))
            good = set(arrays) == set(totals) and part.dtype == np.int64
            good = good and part.shape == total.shape
            if not good or not fits_a_sum(part, len(asked.queries)):
                raise FedcoverError(
                    f"site {name!r} answered {key!r} with something that cannot be",
                    allowed=f"whole numbers of shape {total.shape} whose sum has 64 bits",
                    fix="Check that site's data, or leave it out",
                )
            total += part
    present = [k for k, name in enumerate(sites) if name in asked.queries]
    return Message(kind, {**totals, "present": np.array(present, dtype=np.int64)})

"""What an experiment is: settings, and the rows that one repetition gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fedcover.experiments.records import Results
    from fedcover.report.page import Section

Row = dict[str, Any]
"""One line of the results: plain numbers and texts by column."""


@dataclass(frozen=True)
class Agreement:
    """One claim of the paper beside what came out here.

    Attributes
    ----------
    figure
        Where the paper shows it.
    what
        The quantity.
    paper
        Its value, read off the figure by eye, or a claim in words.
    ours
        The value here, with its spread.
    difference
        Ours less the paper's, where both are numbers.
    agrees
        Whether it lies in the band.
    band
        The band, in words.
    """

    figure: str
    what: str
    paper: str
    ours: str
    difference: str
    agrees: bool
    band: str


class Study(Protocol):
    """An experiment. Objects are small, frozen and can be sent to other processes.

    name : its name on the command line and of its files.
    title : what it asks, in one line.
    repetitions, quick : how often it is repeated, in full and for a first look.
    """

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def repetitions(self) -> int: ...

    @property
    def quick(self) -> int: ...

    def settings(self) -> dict[str, Any]:
        """Everything that decides the results, as plain numbers and texts."""
        ...

    def repetition(self, seed: int, r: int) -> list[Row]:
        """The rows of repetition r; a function of the two numbers alone."""
        ...

    def sections(self, results: Results) -> Sequence[Section]:
        """Figures and tables of the report, from the results alone."""
        ...

    def agreement(self, results: Results) -> Sequence[Agreement]:
        """The paper's claims beside the results."""
        ...

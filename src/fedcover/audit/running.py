"""Real runs, and every number that a viewer of the claim sees in them.

A run goes through the in-process engine, as any run does: server half, all rounds, the site halves,
the sum. The method is handed to it inside a `Watched`, which passes everything on and keeps the
replies. Where a method says that its labels have noise of their own (`independent_labels`), many
runs share a call, and each is handed the numbers of its labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.audit.datasets import DataSets
from fedcover.engines.base import Asked
from fedcover.engines.inprocess import InProcess
from fedcover.errors import FedcoverError
from fedcover.fit import Fit
from fedcover.methods.base import Message, Method, Published, Round, ServerHalf, SumRound, Task
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.site import Site

Float64 = NDArray[np.float64]

BATCH = 1 << 12
"""Runs that are handed on at a time."""


@dataclass(frozen=True)
class Viewer:
    """Whom the claim holds against.

    Attributes
    ----------
    sums_only
        Whether rounds that need only a sum show only a sum.
    conspirators
        Sites whose replies, and so whose noise, it knows all the same.
    published_only
        Whether it sees nothing but what is published in the end.
    """

    sums_only: bool = False
    conspirators: tuple[str, ...] = ()
    published_only: bool = False


class Watched:
    """A method for an engine to run, all of whose replies are kept."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.rounds: list[tuple[Asked, Round, Round]] = []
        self._answered: Round = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def server(self, task: Task) -> ServerHalf:
        """The server half; what it receives is kept."""
        half = self.method.server(task)
        replies: Round | None = None
        while True:
            try:
                asked = next(half) if replies is None else half.send(replies)
            except StopIteration as end:
                return end.value
            self._answered = {}
            replies = yield asked
            self.rounds.append((asked, replies, self._answered))

    def answer(self, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        """The site half; the reply is kept."""
        reply = self.method.answer(query, site, source)
        self._answered = {**self._answered, site.name: reply}
        return reply


def watch(method: Method, task: Task, sites: list[Site]) -> tuple[Published, Watched]:
    """One real run: what is published, and the method with all that it was asked and replied."""
    watched = Watched(method)
    outcome = InProcess().run(watched, task, sites)  # type: ignore[arg-type]
    return outcome.published, watched


def look(method: Method, task: Task, sites: list[Site], viewer: Viewer) -> dict[str, Float64]:
    """One real run: all that the viewer sees, arrays by name."""
    published, watched = watch(method, task, sites)
    seen: dict[str, Float64] = {}
    if viewer.published_only:
        if not isinstance(published, Mapping):
            raise FedcoverError(
                f"method {method.label} publishes a {type(published).__name__}",
                allowed="fits by the names of the targets",
                fix="State what it keeps private as a statement, and audit its replies",
            )
        for target, fit in published.items():
            if isinstance(fit, Fit):
                seen[f"thresholds of {target}"] = fit.thresholds
        return seen
    for number, (asked, received, answered) in enumerate(watched.rounds):
        summed = isinstance(asked, SumRound) and viewer.sums_only
        shown = {n: m for n, m in answered.items() if not summed or n in viewer.conspirators}
        for who, message in shown.items():
            _note(seen, f"of site {who}, round {number}", message)
        if summed:
            _note(seen, f"of the sum, round {number}", received["sum"])
    return seen


def _note(seen: dict[str, Float64], where: str, message: Message) -> None:
    for key, array in message.arrays.items():
        seen[f"{key} {where}"] = np.asarray(array, dtype=np.float64)
        # How long an array is may tell something, too.
        seen[f"length of {key} {where}"] = np.array([float(array.size)])
    for key, number in message.numbers.items():
        seen[f"{key} {where}"] = np.array([float(number)])


class Columns:
    """Where each number of a run stands in a row; made from some runs, kept for all."""

    def __init__(self, looks: list[dict[str, Float64]]) -> None:
        sizes: dict[str, int] = {}
        for seen in looks:
            for name, array in seen.items():
                sizes[name] = max(sizes.get(name, 0), array.size)
        starts = np.cumsum([0, *sizes.values()])
        self.place = dict(zip(sizes, pairwise(starts.tolist()), strict=True))
        self.width = int(starts[-1])
        self.names = [
            f"{name} [{k}]" if size > 1 else name
            for name, size in sizes.items()
            for k in range(size)
        ]

    def row(self, seen: dict[str, Float64]) -> Float64:
        """One run as a row; what no run had before does not fit, and shows by its length."""
        out = np.zeros(self.width)
        for name, array in seen.items():
            if name in self.place:
                start, end = self.place[name]
                part = array.ravel()[: end - start]
                out[start : start + len(part)] = part
        return out


class _Bench(ABC):
    """Runs on three data sets, as rows of numbers."""

    @abstractmethod
    def draw(self, sites: list[Site], count: int) -> Iterator[Float64]:
        """So many runs on these sites, (n, d) at a time."""

    def collected(self, sites: list[Site], count: int) -> Float64:
        """So many runs on these sites, (count, d)."""
        return np.concatenate(list(self.draw(sites, count)))


@dataclass(frozen=True)
class Alone(_Bench):
    """Runs that are made one by one.

    Attributes
    ----------
    method, task, data, viewer
        What is run, on what, and who looks.
    columns
        The order of the numbers.
    """

    method: Method
    task: Task
    data: DataSets
    viewer: Viewer
    columns: Columns

    @classmethod
    def of(cls, method: Method, task: Task, data: DataSets, viewer: Viewer) -> Alone:
        """With the columns of a few runs on each data set."""
        few = [
            look(method, task, sites, viewer)
            for sites in (data.one, data.other, data.group)
            for _ in range(3)
        ]
        return cls(method, task, data, viewer, Columns(few))

    @property
    def names(self) -> list[str]:
        """How the numbers are called."""
        return self.columns.names

    def draw(self, sites: list[Site], count: int) -> Iterator[Float64]:
        for start in range(0, count, BATCH):
            rows = [
                self.columns.row(look(self.method, self.task, sites, self.viewer))
                for _ in range(min(BATCH, count - start))
            ]
            yield np.array(rows)


@dataclass(frozen=True)
class SideBySide(_Bench):
    """Runs that share a call, with two labels each.

    Attributes
    ----------
    method, task, data, viewer
        What is run, on what, and who looks; the task has 2 · runs labels.
    """

    method: Method
    task: Task
    data: DataSets
    viewer: Viewer

    def draw(self, sites: list[Site], count: int) -> Iterator[Float64]:
        done = 0
        while done < count:
            rows = self._split(look(self.method, self.task, sites, self.viewer))[: count - done]
            done += len(rows)
            yield rows

    def _split(self, seen: dict[str, Float64]) -> Float64:
        """(runs, d) what each run sees: the rows of its labels, or rows and columns."""
        labels = self.task.n_classes
        runs = np.arange(labels // 2)
        parts = []
        for name, array in seen.items():
            axes = [k for k, size in enumerate(array.shape) if size == labels]
            pairs = np.moveaxis(array, axes, range(len(axes)))
            if len(axes) == 1:
                parts.append(pairs.reshape(len(runs), -1))
            elif len(axes) == 2:
                blocks = pairs.reshape(len(runs), 2, len(runs), 2, *pairs.shape[2:])
                parts.append(blocks[runs, :, runs].reshape(len(runs), -1))
            elif not name.startswith(("length of ", "present of the sum")):
                raise FedcoverError(
                    f"{name} of method {self.method.label} belongs to no label",
                    allowed="independent_labels where all that is released is by label",
                    fix="Leave independent_labels out: each run is then made by itself",
                )
        return np.concatenate(parts, axis=1)

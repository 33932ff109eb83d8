"""The one-round method: every site sends one noisy integer table, and its label mix stays home.

Under label shift the table H[label, score bin], summed over the sites, is enough for every target,
every α and every query label (`fedcover.sketch.mixture`). A site sends two arrays of whole numbers:

- the table: the counts of each row of labels, through a design D (`fedcover.sketch.design`);
- label totals, measured separately: dividing by sums of noisy bins would double the noise.

Groups of labels can be learned from the label totals; that takes one round before the table.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy import accounting
from fedcover.privacy.events import Event
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.protocols.base import (
    Fit,
    Message,
    Round,
    SecureSum,
    Target,
    Task,
    ask_all,
    fits_a_sum,
    reply_of,
)
from fedcover.site import Site
from fedcover.sketch import plan, reply
from fedcover.sketch.bins import MOST_BINS, checked_edges, checked_warp, even_edges, warp_for
from fedcover.sketch.design import DESIGNS, best_design
from fedcover.sketch.groups import learned_groups, numbered
from fedcover.sketch.personal import fit_of, known_of
from fedcover.sketch.table import Layout, SketchTable

MODES = ("balanced", "guaranteed")


@dataclass(frozen=True)
class Sketch:
    """One round for every target and level: a label × score table, summed over the sites.

    Parameters
    ----------
    bins
        Number of score bins, or their edges from 0 to 1. None: by predicted error with privacy,
        1024 without.
    warp
        Transform in which bins are even: "even", "upper" (finer near 1, to a distance of 1e-6),
        "lower" (finer near 0, to 1e-2), or with another distance as in "lower:0.001"; "auto" for
        what suits the score.
    groups
        Rows that labels share: None for a row per label, a list with the group of every label (a
        superclass name or number), "learned" for groups of labels of like difficulty, found from
        noisy label totals in a round of their own, "auto" for "learned" where rows of single
        labels would drown in noise.
    mode
        With privacy: "balanced" has the noise move the coverage up and down around 1-α,
        "guaranteed" raises thresholds by a standard deviation, to a bin's edge.
    most_per_site
        Most records that one site puts in; needed where whole sites are protected.
    design
        What is measured of a row: "flat", "tree", "root", or "auto" by predicted error.
    """

    bins: int | Sequence[float] | None = None
    warp: str = "auto"
    groups: str | Sequence[Hashable] | None = "auto"
    mode: str = "balanced"
    most_per_site: int | None = None
    design: str = "auto"

    label: ClassVar[str] = "Sketch"
    shares_scores: ClassVar[bool] = False
    guarantee: ClassVar[str] = (
        "1-α up to the errors stated, if records of one label look alike at all sites"
    )
    reveals: ClassVar[str] = (
        "one table per site: how many of its records have each label and a score in each bin; its "
        "label distribution as a target stays home"
    )
    most_rounds: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if isinstance(self.bins, (int, np.integer)) and not isinstance(self.bins, bool):
            object.__setattr__(self, "bins", checks.whole(self.bins, "bins", 2, MOST_BINS))
        elif self.bins is not None:
            object.__setattr__(self, "bins", checked_edges(self.bins))
        if not isinstance(self.warp, str) or self.warp != "auto":
            checked_warp(self.warp)
        checks.choice(self.mode, "mode", MODES)
        checks.choice(self.design, "design", ("auto", *DESIGNS))
        if isinstance(self.groups, str):
            checks.choice(self.groups, "groups", ("auto", "learned"))
        elif self.groups is not None:
            object.__setattr__(self, "groups", numbered(self.groups))
        if self.most_per_site is not None:
            most = checks.whole(self.most_per_site, "most_per_site", 1)
            object.__setattr__(self, "most_per_site", most)

    def server(self, task: Task) -> Generator[Round | SecureSum, Round, SketchTable]:
        layout, learn = self._layout(task)
        noise_ = plan.noise_for(task.privacy, layout, task.noisy, self.most_per_site)
        labels = None
        if learn:
            labels = yield from self._ask(task, layout, noise_, table=False, labels=True)
            sd = math.sqrt(noise_.label_variance * len(labels["present"]))
            rows = learned_groups(labels["labels"] / noise_.scale, sd, task.records, layout.rows)
            layout = replace(layout, groups=rows, learned=True)
        got = yield from self._ask(task, layout, noise_, table=True, labels=not learn)
        labels = labels or got
        present = got["present"].tolist()
        noisy = task.privacy is not None
        return SketchTable(
            layout=layout,
            table=got["table"],
            labels=labels["labels"],
            scale=noise_.scale,
            table_noise=(noise_.table_variance * len(present),) if noisy else (),
            label_noise=(noise_.label_variance * len(labels["present"]),) if noisy else (),
            records=sum(self._size(task, i) for i in present) if task.sizes else None,
            sites=tuple(sorted(task.sites[i] for i in present)),
        )

    def _layout(self, task: Task) -> tuple[Layout, bool]:
        """The layout, and whether its groups are placeholders that are still to be learned."""
        rows, learn = self._rows(task)
        warp = warp_for(task.score, task.n_classes) if self.warp == "auto" else self.warp
        if isinstance(self.bins, tuple):
            edges, warp = self.bins, "even" if self.warp == "auto" else self.warp
        elif isinstance(self.bins, int):
            edges = tuple(even_edges(self.bins, warp).tolist())
        elif task.privacy is None:
            warp, edges = "even", plan.exact_edges(task.n_classes)
        else:
            stops = (task.alphas or (0.1,)) if self.mode == "guaranteed" else ()
            count, columns = (task.n_classes, 1) if rows is None else (max(rows) + 1, 2)
            sigma = plan.row_noise(task.privacy, len(task.sites), self.most_per_site, columns)
            noise = plan.mixture_noise(sigma, count, task.records or plan.RECORDS_UNKNOWN)
            edges = plan.noisy_edges(noise, warp, stops)
        design = self.design
        if design == "auto":
            design = "flat" if task.privacy is None else best_design(len(edges) - 1)
        return Layout(task.n_classes, edges, warp, design, rows), learn

    def _rows(self, task: Task) -> tuple[tuple[int, ...] | None, bool]:
        """The row of every label, and whether that is still to be learned."""
        if isinstance(self.groups, tuple):
            if len(self.groups) != task.n_classes:
                raise FedcoverError(
                    f"groups has {len(self.groups)} entries",
                    allowed=f"one group per class: {task.n_classes}",
                    fix="Give the group of every class in order",
                )
            return self.groups, False
        learn = self.groups == "learned"
        if learn and task.privacy is None:
            raise FedcoverError(
                "groups are to be learned, without privacy",
                allowed="groups='learned' with a privacy budget",
                fix="Leave groups out: without noise every label has its own row",
            )
        if self.groups == "auto" and task.privacy is not None:
            records = task.records or plan.RECORDS_UNKNOWN
            known = (task.n_classes, len(task.sites), records, self.most_per_site)
            learn = plan.groups_pay(task.privacy, *known)
        most = min(plan.MOST_GROUPS, task.n_classes)
        return (tuple(y % most for y in range(task.n_classes)) if learn else None), learn

    def _ask(
        self, task: Task, layout: Layout, noise_: plan.Noise, table: bool, labels: bool
    ) -> Generator[Round | SecureSum, Round, dict[str, NDArray[np.int64]]]:
        """The summed arrays of one query to every site, and which sites are in them."""
        arrays = {"cuts": layout.edge_array[1:-1], "rows": layout.row_of}
        numbers: dict[str, int | float] = {
            "table": int(table),
            "labels": layout.label_columns if labels else 0,
            "cut": layout.label_cut,
            "design": DESIGNS.index(layout.design),
            "scale": noise_.scale,
            "table_sigma": noise_.table_sigma,
            "label_sigma": noise_.label_sigma,
            "most": self.most_per_site or 0,
        }
        asked = ask_all(task, Message("sketch", arrays, numbers))
        shapes = {}
        if table:
            shapes["table"] = (layout.rows, layout.measured)
        if labels:
            shapes["labels"] = (layout.n_classes, layout.label_columns)
        if task.privacy is not None and task.privacy.view == "secure-sum":
            replies = yield SecureSum(asked, shapes)
            present = replies["sum"].arrays["present"]
            sums = {key: _whole(replies, "sum", key, shape) for key, shape in shapes.items()}
            return {**sums, "present": present}
        replies = yield asked
        sums = {key: np.zeros(shape, dtype=np.int64) for key, shape in shapes.items()}
        exact = task.privacy is None and layout.design == "flat"
        for i, name in enumerate(task.sites):
            parts = {
                key: _part(replies, name, key, shape, exact, len(task.sites))
                for key, shape in shapes.items()
            }
            if exact:
                _counts_of(parts, layout, name, self._size(task, i) if task.sizes else None)
            for key, part in parts.items():
                sums[key] += part
        return {**sums, "present": np.arange(len(task.sites))}

    def _size(self, task: Task, i: int) -> int:
        """How many records a site puts in."""
        assert task.sizes is not None
        return min(task.sizes[i], self.most_per_site or task.sizes[i])

    def answer(self, query: Message, site: Site) -> Message:
        return reply.answer(query, site)

    def charges(self, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        return reply.charges(query, privacy, n_sites)

    def statement(self, task: Task) -> PrivacyStatement | None:
        layout, _ = self._layout(task)
        for target in task.targets:
            if target.distribution is None and len(target.members) != 1:
                raise FedcoverError(
                    f"method Sketch cannot serve target {target.name!r}, a group of sites",
                    allowed="targets that are one site, or label counts",
                    fix="Label counts stay at the sites: give those of the group as its target",
                )
        if task.privacy is None:
            return None
        events = plan.noise_for(task.privacy, layout, task.noisy, self.most_per_site).events
        public: tuple[str, ...] = ()
        if task.sizes is not None:
            public = ("the number of records of each site",)
        return PrivacyStatement(
            **{**vars(task.privacy), "epsilon": accounting.epsilon(events, task.privacy.delta)},
            events=events,
            public=public,
            effect=EFFECT[self.mode],
            home="the label distribution of a site, from which its thresholds are made at the site "
            "itself: they depend on it without noise",
        )

    def conclude(self, task: Task, published: Any, target: Target, site: Site | None) -> Fit:
        if target.distribution is not None:
            wanted, counted = target.distribution, None
        else:
            assert site is not None, "statement() has refused targets that are not one site"
            counted = int(site.label_counts.sum())
            wanted = site.label_counts / counted
        mixed, errors = known_of(published, wanted, counted, task.alphas)
        return fit_of(published, mixed, errors, counted, task.alphas, self.mode)


EFFECT = {
    "balanced": "noise on the table moves the coverage up and down around 1-α",
    "guaranteed": (
        "thresholds are raised by one standard deviation of all stated errors and end on a bin's "
        "edge"
    ),
}


def _part(
    replies: Round, site: str, key: str, shape: tuple[int, ...], exact: bool, sites: int
) -> NDArray[np.int64]:
    """An array of one site's reply; an exact table may come as a list of occupied cells."""
    cells = reply_of(replies, site).arrays.get("cells") if exact and key == "table" else None
    if cells is None:
        return _whole(replies, site, key, shape, sites)
    most = int(np.prod(shape))
    if cells.ndim != 1 or cells.dtype.kind != "u" or (len(cells) and cells.max() >= most):
        raise _cannot_be(site, "cells", f"numbers of cells below {most}")
    return np.bincount(cells, minlength=most).reshape(shape)


def _counts_of(
    parts: dict[str, NDArray[np.int64]], layout: Layout, site: str, size: int | None
) -> None:
    """Counts without noise: not negative, of as many records as declared, table like labels."""
    for key, part in parts.items():
        if (part < 0).any() or (size is not None and part.sum() != size):
            raise _cannot_be(site, key, f"counts ≥ 0 that add up to its {size} records")
    if set(parts) == {"table", "labels"}:
        by_row = np.bincount(layout.row_of, parts["labels"].sum(axis=1), layout.rows)
        if not np.array_equal(by_row, parts["table"].sum(axis=1)):
            raise _cannot_be(site, "labels", "as many records of a label as in the table")


def _whole(
    replies: Round, site: str, key: str, shape: tuple[int, ...], sites: int = 1
) -> NDArray[np.int64]:
    array = reply_of(replies, site).arrays.get(key, np.empty(0))
    good = array.shape == shape and array.dtype.kind in "iu"
    if not good or not fits_a_sum(array, sites):
        raise _cannot_be(site, key, f"whole numbers of shape {shape} whose sum has 64 bits")
    return array.astype(np.int64)


def _cannot_be(site: str, key: str, allowed: str) -> FedcoverError:
    return FedcoverError(
        f"site {site!r} answered {key!r} with something that cannot be",
        allowed=allowed,
        fix="Check that site's data, or leave it out",
    )

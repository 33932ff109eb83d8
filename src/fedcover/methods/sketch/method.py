"""The one-round method: every site sends one noisy integer table, and its label mix stays home.

Under label shift the table H[label, score bin], summed over the sites, is enough for every target,
every α and every query label (`curve`). A site sends arrays of whole numbers:

- the table: counts of score bins by label, factorised where noise is added (`factor`);
- label totals, measured separately: dividing by sums of noisy bins would double the noise;
- if asked for, how often the model predicted which label for which (`mix`).
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.checks import refuse_gone
from fedcover.errors import FedcoverError
from fedcover.methods.base import (
    Fit,
    Message,
    Parts,
    Round,
    SumRound,
    Target,
    Task,
    ask_all,
    fits_a_sum,
)
from fedcover.methods.sketch import client, plan
from fedcover.methods.sketch.certify import shared_rows, with_certificate
from fedcover.methods.sketch.client import MOST_CONFUSED
from fedcover.methods.sketch.personalise import LabelMix, Personal
from fedcover.methods.sketch.table import (
    EXACT_BINS,
    FEWEST_BINS,
    MOST_BINS,
    MOST_CELLS,
    NOISY_BINS,
    Layout,
    SketchTable,
    checked_cuts,
    numbered,
    standard_cuts,
)
from fedcover.privacy import accounting
from fedcover.privacy.events import Event
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.privacy.statement import OWN_MIX, Privacy, PrivacyStatement
from fedcover.site import Site

MOST_LABELS_AUDITED = 1024
"""Labels of a call of an audit."""


@dataclass(frozen=True)
class Sketch:
    """One round for every target and level: a label × score table, summed over the sites.

    Parameters
    ----------
    bins
        Number of score bins, or their edges from 0 to 1. None: 1840 with privacy, 4096 without,
        which resolve both ends and the middle of every score.
    groups
        Rows that labels share: a list with the group of every label (a superclass name or number);
        None for a row per label.
    most_per_site
        Most records that one site puts in; needed where whole sites are protected.
    confusion
        Whether sites also send how often the model predicted which label for which, for targets
        without labels; with privacy a fifth of the budget goes there. Up to 100 labels.
    """

    bins: int | Sequence[float] | None = None
    groups: Sequence[Hashable] | None = None
    most_per_site: int | None = None
    confusion: bool = False
    mode: InitVar[object] = None
    warp: InitVar[object] = None
    design: InitVar[object] = None

    label: ClassVar[str] = "Sketch"
    shares_scores: ClassVar[bool] = False
    certifies: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "1-α up to the errors stated, if records of one label look alike at all sites"
    )
    reveals: ClassVar[str] = (
        "one table per site: how many of its records have each label and a score in each bin; its "
        "label distribution as a target stays home"
    )
    most_rounds: ClassVar[int] = 1

    def __post_init__(self, mode: object, warp: object, design: object) -> None:
        refuse_gone(mode=mode, warp=warp, design=design)
        if isinstance(self.bins, (int, np.integer)) and not isinstance(self.bins, bool):
            bins = checks.whole(self.bins, "bins", FEWEST_BINS, MOST_BINS)
            object.__setattr__(self, "bins", bins)
        elif self.bins is not None:
            checked_cuts(self.bins)
            edges = tuple(float(b) for b in self.bins)  # type: ignore[union-attr]
            object.__setattr__(self, "bins", edges)
        if self.groups is not None:
            object.__setattr__(self, "groups", numbered(self.groups))
        if self.most_per_site is not None:
            most = checks.whole(self.most_per_site, "most_per_site", 1)
            object.__setattr__(self, "most_per_site", most)
        checks.flag(self.confusion, "confusion")

    def server(self, task: Task) -> Generator[Round | SumRound, Round, SketchTable]:
        layout = self.layout(task)
        noise = plan.noise_for(
            task.privacy, layout, task.noise_sites, self.most_per_site, self.confusion
        )
        got = yield from self._ask(task, layout, noise)
        present = got.pop("present").tolist()
        return SketchTable(
            layout=layout,
            **got,
            scale=noise.scale,
            table_noise=noise.variance(noise.table_sigma, len(present)),
            label_noise=noise.variance(noise.label_sigma, len(present)),
            confusion_noise=noise.variance(noise.confusion_sigma, len(present)),
            records=sum(self._size(task, i) for i in present) if task.sizes else None,
            sites=tuple(sorted(task.sites[i] for i in present)),
        )

    @property
    def independent_labels(self) -> int:
        """Labels of which each has rows and noise for itself, for audits; 0 where they share.

        An audit runs so many side by side.
        """
        if self.groups is not None or self.most_per_site is not None:
            return 0
        return MOST_CONFUSED if self.confusion else MOST_LABELS_AUDITED

    def with_few_bins(self) -> Self:
        """The same with four bins, for audits, unless others were asked for.

        A record in the top one moves all of its row, however many there are.
        """
        return self if self.bins is not None else replace(self, bins=(0, 0.25, 0.5, 0.75, 1))

    def layout(self, task: Task) -> Layout:
        """Bins and rows of the table, from what is public."""
        rows = task.n_classes
        if self.groups is not None:
            if len(self.groups) != task.n_classes:
                raise FedcoverError(
                    f"groups has {len(self.groups)} entries",
                    allowed=f"one group per class: {task.n_classes}",
                    fix="Give the group of every class in order",
                )
            rows = len(set(self.groups))
        if isinstance(self.bins, tuple):
            cuts = checked_cuts(self.bins)
        else:
            usual = EXACT_BINS if task.privacy is None else NOISY_BINS
            most = max(FEWEST_BINS, MOST_CELLS // rows)
            cuts = standard_cuts(self.bins or min(usual, most))
        groups = None if self.groups is None else numbered(self.groups)
        return Layout(task.n_classes, cuts, task.privacy is not None, groups)

    def _ask(
        self, task: Task, layout: Layout, noise: plan.Noise
    ) -> Generator[Round | SumRound, Round, dict[str, NDArray[np.int64]]]:
        """The summed arrays of one query to every site, and which sites are in them."""
        arrays = {"cuts": layout.cut_array, "rows": layout.row_of}
        numbers: dict[str, int | float] = {
            "factored": int(layout.factored),
            "scale": noise.scale,
            "table_sigma": noise.table_sigma,
            "label_sigma": noise.label_sigma,
            "confusion": int(self.confusion),
            "confusion_sigma": noise.confusion_sigma,
            "most": self.most_per_site or 0,
        }
        asked = ask_all(task, Message("sketch", arrays, numbers))
        shapes: dict[str, tuple[int, ...]] = {
            "table": (layout.rows, layout.bins),
            "labels": (layout.n_classes,),
        }
        if self.confusion:
            shapes["confusion"] = (layout.n_classes, layout.n_classes)
        replies = yield SumRound(asked, shapes, lambda n, r: self._read(task, layout, shapes, n, r))
        total = replies["sum"]
        present = total.arrays["present"]
        return {**{k: _whole(total, "sum", k, s) for k, s in shapes.items()}, "present": present}

    def _read(
        self,
        task: Task,
        layout: Layout,
        shapes: Mapping[str, tuple[int, ...]],
        site: str,
        reply: Message,
    ) -> Parts:
        """One site's arrays, where replies are seen one by one; counts without noise must fit."""
        if task.privacy is not None:
            return {k: _whole(reply, site, k, s, len(task.sites)) for k, s in shapes.items()}
        parts = {k: _counts(reply, site, k, s, len(task.sites)) for k, s in shapes.items()}
        size = self._size(task, task.sites.index(site)) if task.sizes else None
        _refuse_misfits(parts, layout, site, size)
        return parts

    def _size(self, task: Task, i: int) -> int:
        """How many records a site puts in."""
        assert task.sizes is not None
        return min(task.sizes[i], self.most_per_site or task.sizes[i])

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        return client.answer(query, site, source)

    @classmethod
    def charges(cls, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        return client.charges(query, privacy, n_sites)

    def statement(self, task: Task) -> PrivacyStatement | None:
        layout = self.layout(task)
        if self.confusion and task.n_classes > MOST_CONFUSED:
            raise FedcoverError(
                f"confusion=True with {task.n_classes} labels",
                allowed=f"a confusion matrix of at most {MOST_CONFUSED} labels",
                fix="Leave confusion out: the label mix is then estimated from the probabilities",
            )
        if task.certify is not None and self.groups is not None:
            raise shared_rows()
        for target in task.targets:
            if target.distribution is None and len(target.members) != 1:
                raise FedcoverError(
                    f"method Sketch cannot serve target {target.name!r}, a group of sites",
                    allowed="targets that are one site, or label counts",
                    fix="Label counts stay at the sites: give those of the group as its target",
                )
        if task.privacy is None:
            return None
        given = (task.privacy, layout, task.noise_sites)
        plan.refuse_hopeless(
            *given, self._records(task), self.most_per_site, task.alphas, self.confusion
        )
        events = plan.noise_for(*given, self.most_per_site, self.confusion).events
        public: tuple[str, ...] = ()
        if task.sizes is not None:
            public = ("the number of records of each site",)
        statement = PrivacyStatement(
            **{**vars(task.privacy), "epsilon": accounting.epsilon(events, task.privacy.delta)},
            events=events,
            public=public,
            effect="noise on the table moves the coverage up and down around 1-α",
            home=OWN_MIX,
        )
        return statement.with_seeded_noise() if task.seeded else statement

    def _records(self, task: Task) -> int | None:
        """Records that all sites put in, where that is public."""
        if task.sizes is None:
            return None
        return sum(self._size(task, i) for i in range(len(task.sites)))

    def finalise(self, task: Task, published: Any, target: Target, site: Site | None) -> Fit:
        if target.distribution is not None:
            mix = LabelMix(target.distribution, target.counts)
        else:
            assert site is not None, "statement() has refused targets that are not one site"
            counts = site.label_counts
            mix = LabelMix(counts / counts.sum(), counts)
        personal = Personal(published, mix, task.alphas)
        if task.certify is None:
            return personal.fit()
        own = site.positions if site else None
        return with_certificate(personal.fit(), personal, task.certify, own)


def _counts(
    reply: Message, site: str, key: str, shape: tuple[int, ...], sites: int
) -> NDArray[np.int64]:
    """An array of counts without noise; the table may come as a list of occupied cells."""
    cells = reply.arrays.get("cells") if key == "table" else None
    if cells is None:
        return _whole(reply, site, key, shape, sites)
    most = int(np.prod(shape))
    if cells.ndim != 1 or cells.dtype.kind != "u" or (len(cells) and cells.max() >= most):
        raise _cannot_be(site, "cells", f"numbers of cells below {most}")
    return np.bincount(cells, minlength=most).reshape(shape)


def _refuse_misfits(parts: Parts, layout: Layout, site: str, size: int | None) -> None:
    """Counts without noise: not negative, of as many records as declared, table like labels."""
    for key, part in parts.items():
        if (part < 0).any() or (size is not None and part.sum() != size):
            raise _cannot_be(site, key, f"counts ≥ 0 that add up to its {size} records")
    by_row = np.bincount(layout.row_of, parts["labels"], layout.rows)
    if not np.array_equal(by_row, parts["table"].sum(axis=1)):
        raise _cannot_be(site, "labels", "as many records of a label as in the table")


def _whole(
    reply: Message, site: str, key: str, shape: tuple[int, ...], sites: int = 1
) -> NDArray[np.int64]:
    array = reply.arrays.get(key, np.empty(0))
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

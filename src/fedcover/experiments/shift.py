"""Figure 3c: coverage as the label mixes of the agents move apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fedcover.experiments import imagenet
from fedcover.experiments.compare import ALPHA, plain, rows_of
from fedcover.experiments.federations import imagenet as federation
from fedcover.experiments.imagenet import apart, marked, weighted
from fedcover.experiments.records import Results
from fedcover.experiments.sections import SHIFT, claim, mean_and_spread, number
from fedcover.experiments.study import Agreement, Row
from fedcover.privacy.randomness import SeededBytes
from fedcover.report.figures.charts import Line, lines, violins
from fedcover.report.page import Section, Table, responsive
from fedcover.scores import APS

KINDS = ("Global", "Local", "DP-FedCP", "Sketch", "Estimated")
WEIGHTED = KINDS[2:]
COMPETITORS = {name: imagenet.COMPETITORS[name] for name in KINDS}
SHIFTS = tuple(SHIFT)
"""Per cent of an agent's records that come from its own group of labels."""


@dataclass(frozen=True)
class ShiftStudy:
    """The ImageNet setting at shifts from none to 95 %.

    path : a file of logits; None for the synthetic stand-in.
    """

    path: str | None = None
    name: ClassVar[str] = "shift"
    title: ClassVar[str] = "How much label shift does each method bear?"
    repetitions: ClassVar[int] = 200
    quick: ClassVar[int] = 4

    def settings(self) -> dict[str, Any]:
        shared = imagenet.base_settings(self.path)
        return plain({**shared, "shifts": list(SHIFTS), "methods": list(COMPETITORS)})

    def repetition(self, seed: int, r: int) -> list[Row]:
        rows, source = [], SeededBytes(seed, r)
        for shift in SHIFTS:
            fed = federation(imagenet.records_of(self.path), APS(), shift / 100)
            draw = fed.draw(np.random.default_rng([seed, r, shift]))
            rows += [{"shift": shift, **row} for row in rows_of(draw, COMPETITORS, source)]
        return rows

    def sections(self, results: Results) -> Sequence[Section]:
        below = imagenet.below(results)
        cover = _columns(results, "coverage")
        size = _columns(results, "size")
        first, last = (cover[s]["Global"].mean() for s in (SHIFTS[0], SHIFTS[-1]))
        off = max(abs(cover[s][m].mean() - 1 + ALPHA) for s in SHIFTS for m in WEIGHTED)
        curves = {
            m: Line(
                np.array(SHIFTS, dtype=float),
                np.array([size[s][m].mean() for s in SHIFTS]),
                np.array([np.quantile(size[s][m], 0.1) for s in SHIFTS]),
                np.array([np.quantile(size[s][m], 0.9) for s in SHIFTS]),
            )
            for m in KINDS
        }
        return [
            imagenet.origin(results),
            responsive(
                "shift-coverage",
                marked(results, "What does label shift do to coverage?"),
                f"Global goes from {first:.3f} to {last:.3f}; means of the weighted methods are "
                f"within {off:.3f} of the target.",
                f"Empirical coverage at agent 11 by shift: {below} The shift is the share of "
                "their records that agents 1 to 10 take from the easier half of the labels, and "
                "agent 11 from the harder half. Dashed: target 1-α; white mark: median; bar: "
                "middle half of the repetitions.",
                "Violins of coverage by method and shift",
                violins,
                {f"{s} %": cover[s] for s in SHIFTS},
                1 - ALPHA,
                "shift (% of records from an agent's own half)",
                "coverage (share of test records)",
            ),
            responsive(
                "shift-sizes",
                marked(results, "What does it cost?"),
                f"Sets of DP-FedCP go from {size[SHIFTS[0]]['DP-FedCP'].mean():.1f} to "
                f"{size[SHIFTS[-1]]['DP-FedCP'].mean():.1f} labels, those of Global from "
                f"{size[SHIFTS[0]]['Global'].mean():.1f} to "
                f"{size[SHIFTS[-1]]['Global'].mean():.1f}.",
                f"Mean number of labels in a set, and the middle 80 % of the repetitions, measured "
                f"on about {results.settings['n_sizes']} test records: {below}",
                "Mean set size by shift and method",
                lines,
                curves,
                "shift (% of records from an agent's own half)",
                "mean set size (labels)",
            ),
            _table(results, cover, size, below),
        ]

    def agreement(self, results: Results) -> Sequence[Agreement]:
        cover = _columns(results, "coverage")
        means = {m: np.array([cover[s][m].mean() for s in SHIFTS]) for m in KINDS}
        numbers = [
            apart(results, number("Fig. 3c", f"Global at {s} %", paper, cover[s]["Global"], 0.02))
            for s, paper in SHIFT.items()
        ]
        falls = claim(
            "Fig. 3c",
            "Global falls with the shift",
            "at every step",
            f"largest step {np.diff(means['Global']).max():+.3f}",
            "every step below 0",
            agrees=bool((np.diff(means["Global"]) < 0).all()),
        )
        flat = [
            claim(
                "Fig. 3c",
                f"{m} stays at .90",
                "≈ .90 throughout" if m == "DP-FedCP" else "not in the figure",
                f"{means[m].min():.3f} to {means[m].max():.3f}",
                "means within 0.01 at every shift",
                agrees=bool((np.abs(means[m] - (1 - ALPHA)) <= 0.01).all()),
            )
            for m in WEIGHTED
        ]
        rows = [*numbers, falls, *(weighted(results, a) for a in flat)]
        return [replace(a, what=marked(results, a.what)) for a in rows]


def _columns(results: Results, column: str) -> dict[int, dict[str, Any]]:
    return {s: {m: results.values(column, shift=s, method=m) for m in KINDS} for s in SHIFTS}


def _table(results: Results, cover: Any, size: Any, below: str) -> Any:
    return Table(
        marked(results, "All shifts in numbers"),
        ["shift", "Global in the paper, by eye", *KINDS],
        [
            [
                f"{s} %",
                f"{SHIFT[s]:.3f}",
                *(f"{mean_and_spread(cover[s][m])}\n{size[s][m].mean():.1f} labels" for m in KINDS),
            ]
            for s in SHIFTS
        ],
        "Mean coverage ± standard deviation over the repetitions, and below it the mean number of "
        f"labels in a set. {below}",
    )

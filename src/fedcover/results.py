"""What all results share: == by value, a table in notebooks, and a figure.

Figures stand above results in the layers, so a result asks `figure_of` for its own, and
`fedcover.report.plots` says there what is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 7.6
"""Inches across a figure, unless somebody asks for another width."""


class Result:
    """A result that a user holds: a calibration, a sketch, sets."""

    def facts(self) -> Mapping[str, object]:
        """What is worth knowing at a glance, by what it is."""
        raise NotImplementedError

    def plot(self, *, width: float = WIDE) -> Figure:
        """A matplotlib Figure, to show or to save with `figure.savefig`.

        Parameters
        ----------
        width
            Inches across.
        """
        return figure_of(self, width)

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self.facts())

    def __eq__(self, other: object) -> bool:
        return same(self, other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *map(str, self.facts().values())))


@singledispatch
def figure_of(result: object, width: float) -> Figure:
    """The figure of a result."""
    raise NotImplementedError(f"nothing is drawn for {type(result).__name__}")


def same(one: Any, two: Any) -> bool:
    """Whether two results hold the same values, arrays included."""
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return type(one) is type(two) and np.array_equal(one, two)
    if type(one) is type(two) and (isinstance(one, Result) or is_dataclass(one)):
        names = [f.name for f in fields(one)] if is_dataclass(one) else list(vars(one))
        return all(same(getattr(one, name), getattr(two, name)) for name in names)
    return bool(one == two)


def html_table(title: str, facts: Mapping[str, object]) -> str:
    """A small table for a notebook, every text escaped, nothing loaded from elsewhere."""
    cell = '<td style="text-align:left;vertical-align:top">'
    rows = "".join(
        f"<tr>{cell}<b>{escape(what)}</b></td>{cell}{escape(str(value))}</td></tr>"
        for what, value in facts.items()
        if value not in ("", None)
    )
    caption = f'<caption style="text-align:left"><b>{escape(title)}</b></caption>'
    return f"<table>{caption}<tbody>{rows}</tbody></table>"


def numbers(values: Any) -> str:
    """One number, or several with commas."""
    return ", ".join(f"{float(v):.4g}" for v in np.atleast_1d(values))


def span(row: Any) -> str:
    """Thresholds of one level, which may differ from label to label."""
    low, high = float(np.min(row)), float(np.max(row))
    ends = [f"{v:.4g}" if v < 0.9999 else f"{v:.17g}" for v in (low, high)]
    return ends[0] if low == high else " to ".join(ends)

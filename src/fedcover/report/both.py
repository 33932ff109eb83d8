"""A figure drawn twice: for a desktop window and for a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedcover.report import style
from fedcover.report.page import Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(
    name: str,
    title: str,
    answer: str,
    caption: str,
    alt: str,
    draw: Callable[..., Figure],
    *args: Any,
    **kwargs: Any,
) -> Plot:
    """The section of a figure; `draw(*args, width=…, **kwargs)` makes it."""
    wide = draw(*args, width=style.WIDE, **kwargs)
    narrow = draw(*args, width=style.NARROW, **kwargs)
    return Plot(title, answer, name, wide, narrow, caption, alt)

"""The look of the figures, and how a figure becomes inline SVG, .svg and .png.

Figures are drawn in the light colours below. In the page each of these colours becomes a CSS
variable of the same name, so that one drawing serves light and dark windows. The data colours are
from the Okabe-Ito palette, which colour-blind readers can tell apart; every figure also tells them
apart by marker, hatch or lightness.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1b1f24", "#5c6670", "#dde1e6", "#fefefe"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#00795a"
CSS_NAMES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "paper",
    BLUE: "blue",
    ORANGE: "orange",
    GREEN: "green",
}

WIDE, NARROW = 7.6, 4.0
"""Widths of a figure in inches: for a desktop window, and for a phone."""

RC: Any = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 9,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedcover",
}


P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a figure in our style without changing the user's matplotlib settings.

    The layout is found once, so that every format looks the same and is quick to write.
    """

    @functools.wraps(draw)
    def inner(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.rc_context(RC):
            figure = draw(*args, **kwargs)
            if engine := figure.get_layout_engine():
                engine.execute(figure)
            figure.set_layout_engine("none")
        return figure

    return inner


def grid(width: float, height: float, rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    """A figure of panels that share their axes, row by row."""
    if width <= NARROW:
        matplotlib.rcParams["axes.titlesize"] = 8  # inside the context of `styled`
    figure = Figure(figsize=(width, height))
    table = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    return figure, [axes for row in table for axes in row]


def svg(figure: Figure) -> str:
    """The figure as the text of an .svg file, transparent."""
    with matplotlib.rc_context(RC):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return buffer.getvalue()


def inline_svg(text: str, prefix: str, alt: str) -> str:
    """An <svg> element for a page: transparent, scalable, in CSS colours.

    Parameters
    ----------
    text
        What `svg` made.
    prefix
        Keeps the ids of this drawing apart from those of others on the page.
    alt
        What the figure shows, for readers who cannot see it.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1">', text, count=1)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = text.replace("url(#", f"url(#{prefix}-")
    text = text.replace('xlink:href="#', f'href="#{prefix}-')
    for colour, name in CSS_NAMES.items():
        text = re.sub(colour, f"var(--{name})", text, flags=re.IGNORECASE)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).strip()


def save(figure: Figure, text: str, folder: Path, name: str) -> None:
    """Write name.svg, from the text that `svg` made, and name.png, both on a white ground."""
    ground = r'\1<rect width="100%" height="100%" fill="white"/>'
    (folder / f"{name}.svg").write_text(re.sub(r"(<svg [^>]*>)", ground, text, count=1), "utf-8")
    with matplotlib.rc_context(RC):
        figure.savefig(folder / f"{name}.png", dpi=180, facecolor="white")

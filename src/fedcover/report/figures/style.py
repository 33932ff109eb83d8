"""The look of the figures, the parts they share, and how one becomes inline SVG, .svg and .png.

Figures are drawn in the light colours below. In the page each of these colours becomes a CSS
variable of the same name, so that one drawing serves light and dark windows. The data colours are
from the Okabe-Ito palette, which colour-blind readers can tell apart; every figure also tells them
apart by marker, hatch or lightness.
"""

from __future__ import annotations

import functools
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text as MatplotlibText

from fedcover._io.writing import replacing_bytes, write

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

DASHED: Any = (0, (4, 2))
"""How the promise 1-α is drawn, and a threshold."""

LONGEST = 80
"""Characters of a text in a figure, half as many beside an axis; the end of a longer one goes."""

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
    "figure.labelsize": 9,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
    # Names come from files: "$" in one is a dollar, and no formula that may have a mistake in it.
    "text.parse_math": False,
    "text.usetex": False,
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
        with matplotlib.rc_context(RC), _any_script():
            figure = draw(*args, **kwargs)
            for text in figure.findobj(MatplotlibText):
                assert isinstance(text, MatplotlibText)
                text.set_text(shortened(text.get_text(), LONGEST))
            if engine := figure.get_layout_engine():
                engine.execute(figure)
            figure.set_layout_engine("none")
        return figure

    return inner


@contextmanager
def _any_script() -> Iterator[None]:
    """Without a warning for each letter that the font lacks: a browser has it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        yield


def single(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of one panel."""
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def panels(
    n: int, columns: int, width: float, around: float, line: float, *, sharey: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure of n panels that share their axes, row by row.

    Parameters
    ----------
    n, columns
        How many, and how many beside each other in a desktop window.
    width, around, line
        Inches: width of the figure, and height of what is around the panels and of a line of them.
    sharey
        Whether they share the vertical axis, too.
    """
    columns = beside(n, columns, width)
    if width <= NARROW:
        matplotlib.rcParams["axes.titlesize"] = 8  # inside the context of `styled`
    lines = -(-n // columns)
    figure = Figure(figsize=(width, around + line * lines))
    table = figure.subplots(lines, columns, sharex=True, sharey=sharey, squeeze=False)
    places = [axes for row in table for axes in row]
    for k, axes in enumerate(places):
        axes.set_visible(k < n)
        axes.tick_params(labelbottom=k + columns >= n)
    return figure, places[:n]


def beside(n: int, columns: int, width: float) -> int:
    """How many of n panels stand beside each other: on a phone at most two."""
    return min(n, columns, n if width > NARROW else 2)


def named_rows(axes: Axes, names: Sequence[str], **look: Any) -> None:
    """One row for each name, the first on top."""
    axes.set_yticks(range(len(names)), [shortened(name, LONGEST // 2) for name in names], **look)
    axes.set_ylim(len(names) - 0.5, -0.5)


def key(label: str, colour: str = INK, **look: Any) -> Line2D:
    """The entry of a line or a marker in a legend."""
    return Line2D([], [], color=colour, label=label, **look)


def promise(label: str) -> Line2D:
    """The entry of the dashed line at 1-α."""
    return key(label, lw=1, ls=DASHED)


def legend(figure: Figure, keys: Sequence[Artist], wide: int, narrow: int, **look: Any) -> None:
    """The legend above the panels, in so many columns in a desktop window, and on a phone."""
    ncols = wide if figure.get_figwidth() > NARROW else narrow
    figure.legend(handles=list(keys), loc="outside upper left", ncols=ncols, **look)


def shortened(text: str, most: int) -> str:
    """A name that fits, the end replaced by dots where it is long."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def svg(figure: Figure) -> str:
    """The figure as the text of an .svg file, transparent."""
    with matplotlib.rc_context(RC), _any_script():
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


def in_notebooks(figure: Figure) -> Figure:
    """The same figure, which a notebook then shows as a drawing, whatever else is imported."""
    figure._repr_svg_ = lambda: svg(figure)  # type: ignore[attr-defined]
    return figure


def save(figure: Figure, text: str, folder: Path, name: str) -> None:
    """Write name.svg, from the text that `svg` made, and name.png, both on a white ground."""
    ground = r'\1<rect width="100%" height="100%" fill="white"/>'
    write(folder / f"{name}.svg", re.sub(r"(<svg [^>]*>)", ground, text, count=1))
    with matplotlib.rc_context(RC), _any_script(), replacing_bytes(folder / f"{name}.png") as file:
        figure.savefig(file, format="png", dpi=180, facecolor="white")

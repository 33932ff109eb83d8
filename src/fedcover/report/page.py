"""One self-contained HTML page: a title, a lead, key numbers, then sections in order.

    write_page("report.html", "Title", "What was found.", [
        responsive("name", "Does it work?", "Yes, here.", "caption", "alt", draw, data),
        Table("Numbers", columns, rows, "caption"),
        Text("What this promises", paragraphs=["…"]),
    ])

Everything is inside the file: no fonts, scripts or images from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fedcover._io.writing import write
from fedcover.report.figures import style
from fedcover.report.figures.style import Figure


@dataclass(frozen=True)
class Fact:
    """A number worth large type.

    Attributes
    ----------
    value, label
        The number, and what it is.
    tone
        "plain", "good" or "bad".
    """

    value: str
    label: str
    tone: str = "plain"


@dataclass(frozen=True)
class Text:
    """Plain paragraphs, then terms with their explanations, then lines of code.

    Attributes
    ----------
    title
        Its heading.
    paragraphs, terms, code
        The text.
    boxed
        Set the terms small, in a box, each beside its explanation: a glossary.
    """

    title: str
    paragraphs: Sequence[str] = ()
    terms: Sequence[tuple[str, str]] = ()
    code: Sequence[str] = ()
    boxed: bool = False
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Table:
    """A table; on narrow windows each row becomes a card.

    Attributes
    ----------
    title, columns, caption
        Heading, names of the columns, and what is said below.
    rows
        Cells as text; the first names the row. A line break in a cell starts a smaller line.
    answer
        What the table says, in words, above it. A line break starts a paragraph.
    strong
        Names of rows to set off.
    folded
        Show it only when asked.
    text_columns
        Columns of running text.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    answer: str = ""
    strong: Sequence[str] = ()
    folded: bool = False
    text_columns: Sequence[str] = ()
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Plot:
    """A figure under its question, with the answer in one sentence and a caption.

    Attributes
    ----------
    title, answer, caption
        The question, its answer, and what is said below.
    name
        Name of the files written by `save_figures`, and prefix of the ids inside the page.
    wide, narrow
        The same figure drawn for a desktop window and for a phone.
    alt
        What it shows, for readers who cannot see it.
    """

    title: str
    answer: str
    name: str
    wide: Figure
    narrow: Figure
    caption: str
    alt: str
    kind: ClassVar[str] = "plot"

    @cached_property
    def files(self) -> dict[str, str]:
        """Both drawings as texts of .svg files."""
        return {"wide": style.svg(self.wide), "narrow": style.svg(self.narrow)}

    @property
    def svg(self) -> dict[str, str]:
        """Both drawings as <svg> elements."""
        return {
            size: style.inline_svg(text, f"{self.name}-{size[0]}", self.alt)
            for size, text in self.files.items()
        }


Section = Text | Table | Plot


def responsive(
    name: str,
    title: str,
    answer: str,
    caption: str,
    alt: str,
    draw: Callable[..., Figure],
    *args: Any,
    **kwargs: Any,
) -> Plot:
    """A figure for a desktop window and for a phone; `draw(*args, width=…, **kwargs)` makes it."""
    wide = draw(*args, width=style.WIDE, **kwargs)
    narrow = draw(*args, width=style.NARROW, **kwargs)
    return Plot(title, answer, name, wide, narrow, caption, alt)


def write_page(
    path: str | Path,
    title: str,
    lead: Sequence[str],
    sections: Sequence[Section],
    *,
    facts: Sequence[Fact] = (),
    kicker: str = "",
    footer: str = "",
    opening: Plot | None = None,
) -> None:
    """Write the page.

    Parameters
    ----------
    path
        The file.
    title
        The result in one line.
    lead
        Paragraphs below it.
    sections
        What follows, in order.
    facts
        Key numbers below the lead.
    kicker
        A small line above the title.
    footer
        Last line of the page.
    opening
        A figure that stands before all text but the title.
    """
    import jinja2

    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("fedcover.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    pages.filters["unbroken"] = _unbroken
    said = {"title": title, "lead": lead, "facts": facts, "kicker": kicker, "footer": footer}
    template = pages.get_template("page.html.j2")
    text = template.render(**said, sections=sections, opening=opening)
    write(path, text)


def _unbroken(text: str) -> str:
    """Escaped text in which no line ends inside "DP-FedCP", "α = 0.1" or "1 ± 2"."""
    from markupsafe import Markup, escape

    text = re.sub(r" ([=±]) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)
    spans = re.sub(r"(\w+(?:-\w+)+)", r'<span class="unbroken">\1</span>', str(escape(text)))
    return Markup(spans)


def save_figures(sections: Sequence[Section], folder: Path) -> None:
    """Write the wide form of every figure as .svg and .png beside the page."""
    for section in sections:
        if isinstance(section, Plot):
            style.save(section.wide, section.files["wide"], folder, section.name)

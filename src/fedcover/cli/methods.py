"""`fedcover methods`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from fedcover.cli.common import out
from fedcover.methods import registry
from fedcover.methods.registry import Entry

HEADINGS = (
    "method",
    "what leaves a site",
    "keeps a budget",
    "certifies",
    "a site takes part",
    "over a network",
    "options",
)


def methods(
    markdown: Annotated[bool, typer.Option(help="Print the table as markdown.")] = False,
) -> None:
    """The methods: what leaves a site under each, what it promises, and where it runs.

    Example: fedcover methods
    """
    rows = [row(entry) for entry in registry.entries(studies=True)]
    if markdown:
        # Not typer.echo, which writes UTF-8 to a terminal that cannot read it.
        print("\n".join(_line(cells) for cells in (HEADINGS, ["---"] * len(HEADINGS), *rows)))
        return
    shown = Table(show_lines=True)
    for heading in HEADINGS:
        shown.add_column(heading, no_wrap=heading == "method", overflow="fold")
    for cells in rows:
        shown.add_row(*cells)
    out.print(shown)


def row(entry: Entry) -> tuple[str, ...]:
    """What the table says of a method."""
    return (
        entry.name,
        entry.leaves,
        "yes" if entry.private else "no",
        "yes" if entry.certifies else "no",
        "unless told otherwise" if entry.usual else "if its policy names it",
        f"no: {entry.only_in_studies}" if entry.only_in_studies else "yes",
        ", ".join(entry.options) or "none",
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

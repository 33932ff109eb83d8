"""The table of methods: on the terminal, as markdown, and on the page of the documentation."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from fedcover.cli import app
from fedcover.methods import registry

PAGE = (Path(__file__).parents[1] / "docs/methods.md").read_text(encoding="utf-8")


def printed(*words):
    done = CliRunner().invoke(app, ["methods", *words], env={"COLUMNS": "160"})
    assert done.exit_code == 0
    return done.output


def cells(text):
    return [[c.strip() for c in row.split("|")[1:-1]] for row in text.splitlines()]


def test_the_page_has_the_table_that_is_printed():
    shown = PAGE.split("-->\n")[1].split("\n\n")[0]
    assert shown + "\n" == printed("--markdown")


def test_every_method_has_a_row_and_says_what_leaves_a_site():
    head, _, *rows = cells(printed("--markdown"))
    assert [row[0] for row in rows] == list(registry.names(studies=True))
    for row, entry in zip(rows, registry.entries(studies=True), strict=True):
        assert ("raw scores" in row[head.index("what leaves a site")]) == entry.shares_scores
        assert (row[head.index("over a network")] == "yes") == (not entry.only_in_studies)
        assert row[1] != registry.Entry.leaves


def test_the_terminal_shows_every_name_in_full():
    text = printed()
    assert all(name in text for name in registry.names(studies=True))


def test_a_method_from_outside_is_in_it(outside):
    row = next(r for r in cells(printed("--markdown")) if r[0] == "coarse-histogram")
    assert row[2:] == ["yes", "no", "unless told otherwise", "yes", "bins"]

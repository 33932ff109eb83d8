"""The page of the threat model: every line has a test that exists, or says "not protected"."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
OPEN = "not protected"
COMPARED = "Compared with others"
WHO = (
    "A server that follows the protocol, and looks",
    "A server that lies",
    "One site",
    "Several sites together",
    "The network",
    "Somebody who reads files",
    "Somebody who writes files",
    "Whoever runs the software at a site",
)


def sections(page):
    """The text below each heading, by heading."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(section):
    """The cells of every line of its table, without the head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@cache
def functions_in(path):
    """The tests that pytest finds in a file."""
    found = ROOT / path
    if not path.startswith("tests/") or not found.is_file():
        return frozenset()
    body = ast.parse(found.read_text(encoding="utf-8")).body
    names = {one.name for one in body if isinstance(one, ast.FunctionDef)}
    return frozenset(name for name in names if name.startswith("test_"))


def faults(page):
    """What is wrong with a page: a line each."""
    for who, section in sections(page).items():
        for kind, *_, shown in rows(section):
            named = TEST.findall(shown)
            bare = TEST.sub("", shown).replace(OPEN, "").strip(" ;")
            yield from [
                f"{who}: {kind}: {path}::{test} is not there"
                for path, test in named
                if test not in functions_in(path)
            ]
            if not named and OPEN not in shown:
                yield f"{who}: {kind}: nothing shows it"
            if bare and who != COMPARED:
                yield f"{who}: {kind}: {bare} is no test"
            if who in WHO and (kind == "works") != (OPEN in shown):
                yield f"{who}: {kind}: {shown}"
            if who in WHO and kind not in ("sees", "fails", "works"):
                yield f"{who}: {kind} is no kind of line"


def test_every_line_has_a_test_that_exists_or_claims_nothing():
    assert list(faults(PAGE)) == []


def test_everybody_is_on_the_page_and_claims_stand_in_tables():
    found = sections(PAGE)
    assert set(WHO) <= set(found)
    for who in WHO:
        kinds = {kind for kind, *_ in rows(found[who])}
        assert {"fails", "works"} <= kinds or {"sees", "works"} <= kinds
        prose = [line for line in found[who].splitlines() if line and not line.startswith("|")]
        assert len(prose) <= 2, prose  # one sentence on who it is
        assert not any(line.startswith(("-", "*", "1")) for line in prose)


def test_the_comparison_has_every_point():
    points = [first for first, *_ in rows(sections(PAGE)[COMPARED])]
    for point in (
        "threshold",
        "dropouts",
        "who checks survivors",
        "authentic keys",
        "generator of masks",
        "entropy of a seed",
        "neighbours",
        "a lying server learns",
        "cost of a site",
    ):
        assert point in points


GOOD = "| fails | x | `tests/test_wire.py::test_round_trip` |"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (GOOD, 0),
        ("| works | x | not protected |", 0),
        ("| works | x | not protected; `tests/test_wire.py::test_round_trip` |", 0),
        ("| fails | x | `tests/test_wire.py::test_that_is_not_there` |", 1),
        ("| fails | x | `tests/test_that_is_not_there.py::test_round_trip` |", 1),
        ("| fails | x | `src/fedcover/wire.py::encode` |", 1),
        ("| fails | x | |", 1),
        ("| fails | x | test_round_trip |", 2),
        ("| fails | x | not protected |", 1),
        ("| works | x | `tests/test_wire.py::test_round_trip` |", 1),
        ("| hopes | x | `tests/test_wire.py::test_round_trip` |", 1),
    ],
)  # fmt: skip
def test_a_wrong_line_is_noticed(line, wrong):
    page = f"# Page\n\n## One site\n\nIt.\n\n| | what | shown by |\n|---|---|---|\n{GOOD}\n{line}\n"
    assert len(list(faults(page))) == wrong


def test_the_page_is_found_from_where_people_look():
    assert "threat-model.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "docs/threat-model.md" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")

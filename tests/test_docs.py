"""The documentation runs: every python and console block of a page, in order, in a fresh folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedcover.methods import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+|(?<![\w.])\d+(?![\w.])")


def runnable(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [p for p in PAGES if runnable(p)], ids=lambda p: p.name)
@pytest.mark.filterwarnings("default")
def test_page_runs(page, tmp_path, monkeypatch, capsys):
    """A block of text behind a block of Python is what that prints."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    printed = ""
    for kind, text in runnable(page):
        if kind == "python":
            capsys.readouterr()
            exec(compile(text, page.name, "exec"), scope)
            printed = capsys.readouterr().out
            continue
        if kind == "text":
            if printed:
                same_but_for_rounding(printed, text)
            continue
        for line in text.splitlines():
            if line.startswith("$ fedcover "):
                command = [sys.executable, "-m", "fedcover", *shlex.split(line)[2:]]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr


def same_but_for_rounding(printed, shown):
    """The same words; numbers may differ by two in the last digit shown, as processors do."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for got, told in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        assert abs(float(got) - float(told)) <= 2.01 * 10 ** -len(told.partition(".")[2]), (
            got,
            told,
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_exist(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_readme_lists_every_method():
    rows = re.findall(r"^\| `(\w+)(?:\.\w+)?\(", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) == {entry.method.__name__ for entry in registry.entries(studies=True)}

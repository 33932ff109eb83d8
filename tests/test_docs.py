"""The documentation runs: every python and console block of a page, in order, in a fresh folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedcover.methods import registry
from tests.gallery import IMAGES, alike, figure_of
from tests.gallery import PAGES as GALLERY

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+|(?<![\w.])\d+(?![\w.])")


def runnable(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [p for p in PAGES if runnable(p) and p not in GALLERY], ids=name)
@pytest.mark.filterwarnings("default")
def test_page_runs(page, tmp_path, monkeypatch, capsys):
    """A block of text behind a block of Python is what that prints."""
    monkeypatch.chdir(tmp_path)
    run(page, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("page", GALLERY, ids=name)
def test_an_example_runs_and_draws_the_figure_that_the_page_shows(
    page, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run(page, capsys)
    figure = figure_of(page)
    assert f"(../images/{figure})" in page.read_text(encoding="utf-8")
    assert alike(tmp_path / figure, IMAGES / figure), "python -m tests.gallery"


@pytest.mark.parametrize("page", GALLERY, ids=name)
def test_an_example_is_short(page):
    longest = max(len(text.splitlines()) for kind, text in runnable(page) if kind == "python")
    assert longest < 40


def run(page, capsys):
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


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_exist(page):
    """Between files, as on the site: changelog.md and contributing.md are made for the site."""
    made = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        there = ROOT / made[link] if link in made else page.parent / link
        assert there.exists(), f"{name(page)} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_headings_that_links_name_exist(page):
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        there = page.parent / link if link else page
        heads = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {slug(head) for head in heads}, f"{name(page)} links to {link}#{anchor}"


def slug(head):
    """The anchor of a heading, as code hosts and mkdocs make it."""
    return re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_figures_say_what_they_show(page):
    """A figure without words stands only in a link that has some of its own."""
    text = page.read_text(encoding="utf-8")
    for alt in re.findall(r"(?<!\[)!\[([^\]]*)\]\(", text):
        assert len(alt.split()) >= 6, f"{name(page)}: {alt!r}"
    assert all(words.strip() for words in re.findall(r"\[!\[\]\([^)]*\)([^\]]*)\]", text))


def test_the_readme_lists_every_method():
    rows = re.findall(r"^\| `(\w+)(?:\.\w+)?\(", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) == {entry.method.__name__ for entry in registry.entries(studies=True)}

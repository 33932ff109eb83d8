"""The documentation as a site: built without warnings, whole without a network, and fit to look at.

Screenshots go to the folder that FEDCOVER_SCREENSHOTS names, or else to the test run's own.
"""

from __future__ import annotations

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import browser, needs_browser

ROOT = Path(__file__).parents[1]
LIMIT = 1.5e6  # bytes of formulas

pytestmark = [
    pytest.mark.figures,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings")),
        reason="no mkdocs here: pip install -e '.[docs]'",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site. Every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert len(found) > 30
    return found


def links(text):
    return [html.unescape(link) for link in re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', text)]


def broken(pages):
    """Links between pages that lead to no file, or to no place in it."""
    places = {path: set(re.findall(r'\bid="([^"]*)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in links(text):
            to = urlsplit(link)
            if to.scheme or link.startswith("//"):
                continue
            there = (path.parent / unquote(to.path)).resolve() if to.path else path
            there = there / "index.html" if there.is_dir() else there
            anchor = unquote(to.fragment)
            if not there.exists() or (anchor and there in places and anchor not in places[there]):
                yield f"{path.name}: {link}"


def test_links_and_anchors_hold(pages):
    looked_at = {p: t for p, t in pages.items() if p.name != "404.html"}  # its links are absolute
    assert list(broken(looked_at)) == []


def test_a_broken_link_and_a_broken_anchor_are_found(tmp_path):
    page = tmp_path / "a.html"
    text = (
        '<h2 id="here"></h2><a href="#here"></a><a class="x" href="#gone"></a><a href="b.html"></a>'
    )
    page.write_text(text)
    assert list(broken({page: text})) == ["a.html: #gone", "a.html: b.html"]


def test_the_pages_need_nothing_from_elsewhere(site, pages):
    """Scripts, styles, fonts and figures are files of the site; links may lead elsewhere."""
    tag, at = r"<(?:script|link|img|iframe|source)\b[^>]*?", r"\b(?:src|href)"
    parts = re.compile(tag + at + r'="((?:https?:)?//[^"]*)"')
    for path, text in pages.items():
        assert parts.findall(text) == [], path.name
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", text), style.name


def test_formulas_are_small_and_licensed(site):
    folder = site / "assets/katex"
    assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) < LIMIT
    assert "MIT" in (folder / "LICENSE").read_text(encoding="utf-8")
    named = re.findall(r"url\(([^)]*)\)", (folder / "katex.min.css").read_text(encoding="utf-8"))
    assert named
    assert all((folder / font).exists() for font in named)


LOOKED_AT = (
    "index", "quickstart", "choose", "label-shift", "sketch", "certificate", "guarantees",
    "privacy", "tutorial", "gallery/index", "gallery/images", "gallery/hundred", "serving",
    "compare", "glossary", "methods", "flower", "commands", "threat-model",
    "playground",
)  # fmt: skip
WINDOWS = {
    "wide": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "narrow": {"viewport": {"width": 380, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}
FAULTS = (ROOT / "tests/faults.js").read_text(encoding="utf-8").partition("\n")[2]


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    named = os.environ.get("FEDCOVER_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@needs_browser
@pytest.mark.parametrize("window", WINDOWS)
def test_nothing_overlaps_or_is_cut_off(site, chromium, shots, window):
    """Opened as files, as by somebody without a network; whatever a page asks for is on record."""
    asked, failed, faults = set(), [], {}
    context = chromium.new_context(**WINDOWS[window])
    page = context.new_page()
    page.on("request", lambda request: asked.add(urlsplit(request.url).scheme))
    page.on("pageerror", lambda error: failed.append(f"{page.url}: {error}"))
    for name in LOOKED_AT:
        page.goto((site / f"{name}.html").as_uri())
        page.screenshot(path=shots / f"{name.replace('/', '-')}-{window}.png", full_page=True)
        if found := page.evaluate(FAULTS):
            faults[name] = found
    context.close()
    assert faults == {}
    assert failed == []
    assert asked <= {"file", "data", "blob", "about"}


@needs_browser
def test_faults_are_found(chromium):
    page = chromium.new_page(viewport={"width": 400, "height": 400})
    long = "x" * 200
    page.set_content(
        f"<article><p>words</p><p style='margin-top:-25px'>above</p><pre>{long}</pre>"
        f"<p style='overflow:hidden; white-space:nowrap'>{long}</p><img src='gone.png' alt='it'>"
        "<span class='arithmatex'>x</span></article>"
    )
    said = " ".join(page.evaluate(FAULTS))
    page.close()
    for fault in (
        "wider than the window",
        "overlap",
        "code cut off",
        "clipped",
        "no figure",
        "not typeset",
    ):
        assert fault in said


@needs_browser
def test_search_works_in_pages_opened_as_files(site, chromium):
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "index.html").as_uri())
    page.locator("[data-md-component=search-query]").first.fill("conspirators")
    result = page.locator(".md-search-result__link").first
    result.wait_for(timeout=20_000)
    assert "html" in result.get_attribute("href")
    page.close()


def test_the_steps_of_the_proof_keep_their_numbers(pages):
    """They refer to each other; a list that begins at 4 must not begin at 1."""
    (text,) = (
        text
        for path, text in pages.items()
        if path.name == "certificate.html" and path.parent.name != "gallery"
    )
    assert re.findall(r'<ol start="(\d+)">', text) == ["4", "7", "10", "12"]

"""The page of `fedcover report`: its numbers and words; nothing overlaps or is cut off."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.special import softmax
from typer.testing import CliRunner

import fedcover as fc
from fedcover import cli
from fedcover.report import page as pages
from fedcover.report.evaluation import LISTED
from fedcover.report.figures import results, style
from tests.browser import browser, needs_browser
from tests.report.test_figures import check_texts

pytestmark = [pytest.mark.figures, pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")]

ROOT = Path(__file__).parents[2]
FAULTS = (ROOT / "tests/faults.js").read_text(encoding="utf-8").partition("\n")[2]
WINDOWS = {
    "wide": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "narrow": {"viewport": {"width": 380, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}
CUT_OFF = """() => [...document.querySelectorAll("svg text")].filter(t => {
  const s = t.closest("svg").getBoundingClientRect(), b = t.getBoundingClientRect();
  return s.width && (b.left < s.left - 2 || b.right > s.right + 2 || b.top < s.top - 2 ||
    b.bottom > s.bottom + 2);
}).map(t => t.textContent)"""


def outputs(n, classes, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) + 3 * np.eye(classes)[labels]
    return logits, labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A plain calibration of a few classes, and a private, certified, signed one of many."""
    folder = tmp_path_factory.mktemp("report")
    for kind, classes, alpha, asked in (
        ("plain", 3, 0.1, {}),
        ("private", 60, [0.1, 0.2, 0.3, 0.4], {"privacy": fc.Privacy(20, 1e-5), "certify": 0.9}),
    ):
        names = [f"a <long> & odd name of class {k}" for k in range(classes)]
        sites = [
            fc.Site.from_probabilities(
                name, softmax(logits, axis=1), labels, seed=k, label_names=names
            )
            for k, name in enumerate(("north", "south"))
            for logits, labels in [outputs(900, classes, k)]
        ]  # fmt: skip
        method = fc.methods.Sketch(groups=None) if asked else None
        made = fc.calibrate(sites, alpha, method, seed=0, **asked)["north"]
        if asked:
            made = made.signed(Ed25519PrivateKey.generate(), "north", "site")
        made.save(folder / f"{kind}.json")
        for k in (7, 8):
            logits, labels = outputs(300, classes, k)
            np.savez(folder / f"{kind}-{k}.npz", logits=logits, labels=labels, label_names=names)
    return folder


def run(*arguments):
    done = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def made(folder):
    """Both pages by name, the first of two files and the second of one."""
    run("report", folder / "plain.json", *folder.glob("plain-*.npz"), "--out", folder / "p.html")
    private = folder / "private.json", folder / "private-7.npz"
    run("evaluate", *private, "--report", folder / "q.html", "--out", folder / "q.json")
    return {"own-report": folder / "p.html", "own-report-private": folder / "q.html"}


def words(path):
    text = path.read_text(encoding="utf-8")
    plain = re.sub(r"<svg.*?</svg>|<style.*?</style>|<[^>]+>", "", text, flags=re.DOTALL)
    return html.unescape(plain).replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_has_the_numbers_of_evaluate(folder, made):
    files = sorted(folder.glob("plain-*.npz"))
    printed = run("evaluate", folder / "plain.json", *files)
    said = words(made["own-report"])
    cal = fc.Calibration.load(folder / "plain.json")
    logits, labels = (
        np.concatenate([np.load(file)[name] for file in files]) for name in ("logits", "labels")
    )
    sets = cal.predict_set(logits=logits, seed=0)
    (whole,) = sets.coverage_band(labels)
    assert f"{whole.value:.1%} of 600 records covered" in said
    assert f"{whole.value:.3f} {whole.low:.3f} - {whole.high:.3f}" in re.sub("[│ ]+", " ", printed)
    for groups in (sets.coverage_by_class(labels)[0], sets.coverage_by_size(labels)[0]):
        for c in groups.values():
            cell = f"{100 * c.value:.1f}{100 * c.low:.1f} to {100 * c.high:.1f}, n = {c.n}"
            assert cell in said
    for part in ("file by file", "class by class", "by size of the set"):
        assert f"Show the numbers {part}" in said


def test_the_page_says_what_left_what_holds_and_who_signed(folder, made):
    cal = fc.Calibration.load(folder / "private.json")
    said = words(made["own-report-private"])
    for part in (
        cal.certificate.statement, cal.privacy.describe(), f"ε = {cal.privacy.epsilon:.4g}",
        f"{cal.cost.bytes_up:,} bytes", cal.guarantee, f"{cal.signed_by[0].describe()}.",
        "They were not checked here", f"{LISTED} of 60 are drawn",
    ):  # fmt: skip
        assert part in said, part
    plain = fc.Calibration.load(folder / "plain.json")
    said = words(made["own-report"])
    for part in (plain.reveals[1:], "No differential privacy is claimed", "Nobody: whoever",
                 "No certificate was asked for", "odd name of class 2"):  # fmt: skip
        assert part in said, part
    assert "<long>" not in made["own-report"].read_text(encoding="utf-8")
    assert str(folder) not in said


def test_the_page_loads_nothing(made):
    for path in made.values():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://|@import|<script|<link|<img", text)


@pytest.mark.parametrize("width", [style.WIDE, style.NARROW])
@pytest.mark.parametrize("n", [1, 12, 40])
def test_bands_of_few_and_many_groups(n, width):
    groups = [fc.diagnostics.clopper_pearson(k % 20, 20) for k in range(n)]
    levels = {"α = 0.1": groups, "α = 0.2": [None, *groups[1:]], "α = 0.3": groups}
    names = [f"a class with a long name, number {k}" for k in range(n)]
    figure = results.bands(levels, names, [0.9, 0.8, 0.7], width=width)
    check_texts(figure)
    marked = [line for line in figure.axes[1].lines if line.get_marker() in ("o", "v")]
    assert [line.get_xdata()[0] for line in marked] == [100 * c.value for c in groups[1:]]
    assert [line.get_marker() for line in marked] == [
        "v" if c.high < 0.8 else "o" for c in groups[1:]
    ]


@needs_browser
@pytest.mark.parametrize("window", WINDOWS)
def test_nothing_overlaps_or_is_cut_off(made, tmp_path, window):
    shots = Path(os.environ.get("FEDCOVER_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        page = chromium.new_context(**WINDOWS[window]).new_page()
        for name, path in made.items():
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            page.screenshot(path=shots / f"{name}-{window}.png", full_page=True)
            assert page.evaluate(FAULTS) == []
            assert page.evaluate(CUT_OFF) == []
        page.evaluate("document.querySelector('h1').style.marginBottom = '-60px'")
        assert any("overlap" in fault for fault in page.evaluate(FAULTS))


def test_an_opening_figure_stands_before_the_text(tmp_path):
    drawn = pages.responsive(
        "x", "Why?", "So.", "Caption.", "alt", results.bands,
        {"α = 0.1": [fc.diagnostics.clopper_pearson(9, 10)]}, ["all"], [0.9],
    )  # fmt: skip
    pages.write_page(tmp_path / "p.html", "Title", ["The lead."], [], opening=drawn)
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert text.index("<h1>") < text.index("<svg") < text.index("The lead.")

"""The playground: its script gives Python's numbers, and both give what federations measure."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

import fedcover as fc
from fedcover.experiments.playground import CLASSES, Setting, cifar10, forecast, html, write_page
from tests.browser import browser, needs_browser

SHIPPED = Path(__file__).parents[2] / "docs/playground.html"
FACTS = re.compile(r'<script id="facts" type="application/json">(.*?)</script>', re.DOTALL)


def drawn(rng):
    """A setting that the page's controls can give, and some beyond."""
    sites = int(rng.integers(2, 61))
    return Setting(
        alpha=round(float(rng.uniform(0.01, 0.3)), 2),
        epsilon=None if rng.random() < 0.2 else float(rng.uniform(0.25, 16)),
        sites=sites,
        records=10 * int(rng.integers(2, 500)),
        common=int(rng.integers(10)),
        share=round(float(rng.uniform(0.1, 0.9)), 2),
        view=str(rng.choice(["server", "secure-sum"])),
    )


def test_the_page_of_the_documentation_is_the_one_that_is_made():
    """Its curves may differ by the few records that rounding puts beyond an edge."""
    made, shipped = html(), SHIPPED.read_text(encoding="utf-8")
    assert FACTS.sub("", made) == FACTS.sub("", shipped)
    now, then = (json.loads(FACTS.search(text).group(1)) for text in (made, shipped))
    for name in ("misses", "left_out"):
        apart = np.cumsum(np.subtract(now.pop(name), then.pop(name)), axis=1)
        assert np.abs(apart).max() <= 5
    assert now == then


def test_the_page_needs_nothing_from_elsewhere():
    assert not re.search(r"(?:src|href)=|https?:|@import|url\(", html())


@pytest.mark.figures
@needs_browser
def test_the_script_gives_the_numbers_of_python(tmp_path):
    """Four digits are asked for; six are there, whatever the setting."""
    write_page(tmp_path / "page.html")
    rng, curves, failed = np.random.default_rng(), cifar10(), []
    with browser() as chromium:
        page = chromium.new_page()
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        for setting in (Setting(), Setting(epsilon=None), *(drawn(rng) for _ in range(40))):
            shown = page.evaluate("s => forecast(s)", dataclasses.asdict(setting))
            for name, value in dataclasses.asdict(forecast(setting, curves)).items():
                assert shown[name] == pytest.approx(value, rel=1e-6, abs=1e-7), (name, setting)
    assert not failed


@pytest.mark.figures
@needs_browser
@pytest.mark.parametrize("width", [360, 1100])
def test_what_one_sees_follows_the_controls(tmp_path, width):
    write_page(tmp_path / "page.html")
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "page.html").as_uri())
        before = page.inner_text("#rows")
        page.select_option("#common", label="ship")
        page.locator("#epsilon").fill("0")
        assert page.inner_text("#rows") != before
        assert "refuses" in page.inner_text("#said")  # ε = .25 drowns these records
        page.locator("#epsilon").fill("16")
        found = forecast(Setting(0.1, None, 20, 100, CLASSES.index("ship"), 0.55), cifar10())
        cells = page.locator("#rows tr").nth(3).locator("td").all_inner_texts()
        assert cells[1:] == ["90.0 %", f"± {100 * found.error:.1f} %", f"{found.size:.2f}"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.evaluate(
            "[...document.querySelectorAll('#figure text')].map(t => { const b = t.getBBox(),"
            " v = document.querySelector('#figure').viewBox.baseVal;"
            " return [b.x, v.width - b.x - b.width, b.y, v.height - b.y - b.height]; })"
        )
        assert min(map(min, boxes)) > -3  # no word is cut off


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedcover.errors.FedcoverWarning")
@pytest.mark.parametrize(
    "setting",
    [Setting(epsilon=2.0), Setting(epsilon=None, records=100), Setting(epsilon=8.0, records=200)],
    ids=lambda s: f"{s.epsilon}-{s.records}",
)
def test_federations_do_as_forecast(setting):
    """Over 60 federations. A deviation of 60 is off by 9 %: bands of a third are 3.6 of these."""
    rng, curves = np.random.default_rng(7), cifar10()
    found = forecast(setting, curves)
    pi = np.full(10, (1 - setting.share) / 9)
    pi[setting.common] = setting.share
    law = [records_of(counts, rng) for counts in np.diff(curves.misses, axis=1, prepend=0)]
    labels = np.repeat(np.arange(10), setting.records // 10)
    covers, certified = [], []
    for _ in range(60):
        sites = [
            fc.Site(f"s{i}", np.array([rng.choice(law[y]) for y in labels]), labels, n_classes=10)
            for i in range(setting.sites)
        ]
        budget = setting.epsilon and fc.Privacy(setting.epsilon, 1e-5, view=setting.view)
        sketch = fc.collect(sites, privacy=budget)
        for out, more in ((covers, {}), (certified, {"certify": 0.95})):
            limits = sketch.personalise(pi, alpha=setting.alpha, **more).thresholds[0]
            shares = [np.mean(v <= t) for v, t in zip(law, limits, strict=True)]
            out.append(float(pi @ shares))
    assert np.std(covers) == pytest.approx(found.error, rel=1 / 3)
    assert np.median(certified) == pytest.approx(found.certified_coverage, abs=found.error)


def records_of(counts, rng):
    """Scores with the counts of each bin, from the top, spread over the bin."""
    from fedcover.methods.sketch.table import NOISY_BINS, standard_cuts, upper_edges
    from fedcover.position import scores_at

    cuts = np.array(standard_cuts(NOISY_BINS), dtype=np.int64)
    upper = scores_at(upper_edges(cuts))
    lower = np.append(upper[1:], 0.0)
    bins = np.repeat(np.arange(len(counts)), counts)
    return rng.uniform(lower[bins], upper[bins])

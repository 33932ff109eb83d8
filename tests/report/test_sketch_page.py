"""The pages of `collect` and `personalise`: readable at any size, honest, and self-contained."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fedcover.sketch.mixture import mixture
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch

import fedcover as fc
from fedcover.report import own_records, personal, personal_figures, sketch_figures, style
from fedcover.report import sketch as page
from fedcover.report.cells import cell_noise, cell_records
from fedcover.report.heat import MOST_COLUMNS, MOST_ROWS, heat, shortened
from tests.report.test_figures import check_texts

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

WIDTHS = [style.WIDE, style.NARROW]


def sites(n_classes: int, n_sites: int = 3, n: int = 400) -> list[fc.Site]:
    out = []
    for i in range(n_sites):
        rng = np.random.default_rng(i)
        labels = rng.integers(0, n_classes, n + 10 * i)
        scores = rng.beta(2, 1 + 4 * labels / n_classes)
        names = tuple(f"label number {k}" for k in range(n_classes))
        out.append(fc.Site(f"site {i}", scores, labels, n_classes=n_classes, label_names=names))
    return out


def collected(n_classes: int, epsilon: float | None = None, **options) -> fc.SketchResult:
    privacy = None if epsilon is None else fc.Privacy(epsilon, 1e-5)
    return fc.collect(sites(n_classes), fc.methods.Sketch(**options), privacy)


def drawn(sketch: fc.SketchResult, width: float):
    shown = heat(sketch.table, sketch.label_names)
    names = shown.names(24 if width == style.WIDE else 14)
    return sketch_figures.heat_map(
        shown.cells, names, shown.totals, shown.places, shown.edges,
        ylabel=shown.row_is, noise=shown.noise, width=width,
    )  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("epsilon", [None, 0.5])
@pytest.mark.parametrize("n_classes", [3, 100, 1000])
def test_heat_map_of_few_and_many_labels(n_classes, epsilon, width):
    figure = drawn(collected(n_classes, epsilon, groups=None), width)
    axes = figure.axes[0]
    assert axes.get_xlabel()
    assert axes.get_ylabel() == "label"
    assert 3 <= len(axes.get_yticks()) <= MOST_ROWS
    check_texts(figure)


@pytest.mark.parametrize("options", [
    {"bins": 64, "warp": "upper"}, {"bins": 37}, {"bins": 200}, {"bins": [0, 0.5, 0.98, 0.99, 1]},
    {"groups": "learned"}, {"mode": "guaranteed"}, {"bins": 64, "design": "root"},
])  # fmt: skip
@pytest.mark.parametrize("width", WIDTHS)
def test_heat_map_of_any_bins_and_groups(options, width):
    check_texts(drawn(collected(60, 1.0, **options), width))


@pytest.mark.parametrize("n_classes", [3, 100, 1000])
def test_pooling_loses_no_record_and_says_so(n_classes):
    sketch = collected(n_classes)
    shown = heat(sketch.table, sketch.label_names)
    rows, columns = shown.cells.shape
    assert rows <= MOST_ROWS
    assert columns <= MOST_COLUMNS
    assert (
        shown.cells.sum() == sketch.n_records == sum(int(t.replace(",", "")) for t in shown.totals)
    )
    assert ("A row pools" in shown.said) == (n_classes > MOST_ROWS)
    assert "A column pools" in shown.said
    assert len(shown.places) == len(shown.edges) == columns + 1
    assert (shown.edges[0], shown.edges[-1]) == (0, 1)
    pool = -(-n_classes // MOST_ROWS)
    labels = np.concatenate([s.labels for s in sites(n_classes)])
    assert shown.cells[1].sum() == np.isin(labels, np.arange(pool, 2 * pool)).sum()


def test_names_fit_or_become_numbers():
    shown = heat(collected(100).table, [f"a very long name of label {k}" for k in range(100)])
    assert shown.names(80)[0] == "a very long name of label 0 to a very long name of label 2"
    assert shown.names(24)[:2] == ["0 to 2", "3 to 5"]
    assert shown.names(24)[-1] == "99"
    assert shortened("abcdef", 4) == "abc…"
    sketch = collected(4, groups=["x", "y", "x", "x"])
    assert heat(sketch.table, None, ["x", "y", "x", "x"]).names(24) == ["x (3)", "y (1)"]
    assert heat(sketch.table).names(24)[0] == "3 labels: 0, 2, 3, …"


@pytest.mark.parametrize("design", ["flat", "tree", "root"])
def test_cells_are_records_whatever_was_measured(design):
    exact = cell_records(collected(3, bins=20, warp="even").table)
    noisy = collected(3, 1e4, bins=20, warp="even", design=design, groups=None).table
    assert cell_records(noisy) == pytest.approx(exact, abs=6 * cell_noise(noisy))
    assert 0 < cell_noise(noisy) < 1
    assert cell_noise(collected(3).table) == 0


def test_negative_cells_are_shown_as_such():
    figure = drawn(collected(20, 0.2, groups=None), style.WIDE)
    colours = {to_hex(p.get_facecolor()) for p in figure.axes[0].patches if p.get_fill()}
    assert colours == {style.BLUE, style.ORANGE}
    (minus,) = [p for p in figure.axes[0].patches if not p.get_fill()]
    cells = heat(collected(20).table).cells
    assert isinstance(minus, PathPatch)
    assert len(minus.get_path().vertices) > 2
    assert all(p.get_fill() for p in drawn(collected(20), style.WIDE).axes[0].patches)
    assert (cells >= 0).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_sites", [1, 3, 5, 12, 13, 40])
def test_coverage_figures_of_few_and_many_sites(n_sites, width):
    some = sites(4, n_sites, n=60)
    sketch = fc.collect(some)
    curves = own_records.curves_of(sketch, some)
    drawn = own_records.plot(curves, n_sites, private=False)
    figure = drawn.wide if width == style.WIDE else drawn.narrow
    assert figure.get_supxlabel()
    assert figure.get_supylabel()
    assert sum(a.get_visible() for a in figure.axes) == (n_sites if n_sites <= 12 else 1)
    check_texts(figure)


def test_curves_are_the_coverage_of_the_sets_on_own_records():
    some = sites(5)
    sketch = fc.collect(some)
    covered = own_records.own_coverage(sketch, some[1])
    at = list(own_records.ALPHAS).index(0.2)
    cal = sketch.personalise(some[1].calibration_counts, 0.2)
    inside = some[1].scores <= cal.thresholds[0][some[1].labels]
    assert covered[at] == inside.mean()
    assert abs(covered - (1 - own_records.ALPHAS)).max() < 0.1


def test_of_very_many_sites_some_are_drawn_and_that_is_said():
    some = sites(3, 70, n=20)
    curves = own_records.curves_of(fc.collect(some), some)
    assert len(curves) == own_records.MOST_SITES
    assert "60 of 70 sites are drawn" in own_records.plot(curves, 70, private=False).caption


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("levels", [1, 3, 8])
def test_personal_figures(levels, width):
    places = np.linspace(0, 1, 50)
    marks = [
        personal_figures.Mark(a, f"{1 - a:.4f} to {1.001 - a:.4f}", 1 - a, 1 - a)
        for a in np.round(np.linspace(0.01, 0.3, levels), 3)
    ]
    own = np.linspace(0, 1, 20), np.linspace(0.05, 1, 20)
    spread = np.full(50, 0.02)
    figure = personal_figures.distribution(places, places, places, spread, marks, own, width=width)
    assert figure.axes[0].get_xlabel()
    assert figure.axes[0].get_ylabel()
    check_texts(figure)
    parts = {"calibration sample": 0.01, "unlike labels in a group": 0.002}
    figure = personal_figures.error_parts(parts, {"all together": 0.0102}, width=width)
    assert [t.get_text() for t in figure.axes[0].texts] == ["1.00", "0.20", "1.02"]
    assert figure.get_supxlabel()
    check_texts(figure)


def written(tmp_path, sketch, some, name="p.html", **more):
    sketch.save(tmp_path / "s.npz")
    page.write(tmp_path / name, sketch, tmp_path / "s.npz", some, **more)
    return " ".join((tmp_path / name).read_text(encoding="utf-8").split())


def plain(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html.split("</style>", 1)[1]).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_collect_page_says_what_it_must(tmp_path, epsilon):
    html = written(tmp_path, collected(3, epsilon), sites(3))
    assert not re.search(r"https?:|<script|<link|<img|src=|@import", html)
    text = plain(html)
    assert "n = 1,230 calibration records of 3 sites" in text
    assert "These are the records the table was made from, not new ones" in text
    assert "for α from 0.02 to 0.5" in text
    assert text.count("Assumed: records of one label look alike at all sites") == 2
    assert "this page is not covered by ε" in text
    if epsilon:
        for part in ("ε = 2", "δ = 1e-05", "one record", "replace", "server", "Privacy noise of ±"):
            assert part in text
    else:
        assert "none: the counts are exact" in text


def test_collect_page_without_records_of_sites(tmp_path):
    text = plain(written(tmp_path, collected(3), []))
    assert "What is in the table?" in text
    assert "Does every site get" not in text
    assert "this page is not covered" not in text


def test_the_page_is_the_same_every_time(tmp_path):
    pages = [written(tmp_path, collected(30), sites(30), name) for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("n_classes", [100, 1000])
def test_pages_of_many_labels_stay_small(tmp_path, n_classes):
    written(tmp_path, collected(n_classes), sites(n_classes))
    assert (tmp_path / "p.html").stat().st_size < 600_000


@pytest.mark.parametrize(("high", "warp", "advice"), [
    (True, "even", "warp=upper"), (False, "even", "warp=lower"), (True, "lower", "warp=even"),
])  # fmt: skip
def test_scores_that_crowd_are_spoken_of(tmp_path, high, warp, advice):
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.97, 1, 800) if high else rng.uniform(0, 0.03, 800)
    site = fc.Site("a", scores, rng.integers(0, 3, 800), n_classes=3)
    method = fc.methods.Sketch(bins=8, warp=warp)
    sketch = fc.collect([site], method, fc.Privacy(20, 1e-5))
    assert f"collect with --option {advice}" in plain(written(tmp_path, sketch, [site]))


def test_secure_sums_are_told_apart(tmp_path):
    privacy = fc.Privacy(2, 1e-5, unit="site", relation="add-remove", view="secure-sum")
    sketch = fc.collect(sites(3), fc.methods.Sketch(most_per_site=50), privacy)
    text = plain(written(tmp_path, sketch, sites(3)))
    assert "only the sum of the noisy tables over all sites" in text
    assert "all data of one site" in text
    assert "about" in text


@pytest.mark.parametrize("epsilon", [None, 1.0])
@pytest.mark.parametrize("use_own", [False, True])
def test_personal_page_says_what_it_must(tmp_path, epsilon, use_own):
    sketch, (site, *_) = collected(3, epsilon), sites(3)
    own = site.scores if use_own else None
    levels = [0.05, 0.1, 0.2]
    cal = sketch.personalise(site.label_counts, levels, local_scores=own, name=site.name)
    mix = personal.LabelMix.of(sketch, "400 counted labels", label_counts=site.label_counts)
    personal.write(tmp_path / "p.html", sketch, cal, tmp_path / "c.json", mix, site, use_own)
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|<script|<link|<img|src=|@import", html)
    text = plain(" ".join(html.split()))
    assert "No message was sent" in text
    assert "n = 1,230 records, label mix: 400 counted labels" in text
    assert "Does it hold at home?" in text
    assert "They are not new ones" in text
    assert ("own scores blended in" in html) == use_own
    assert ("privacy noise" in html) == (epsilon is not None)
    assert html.count("<svg") == 6
    for level in levels:
        assert f"α = {level:g}" in text


def test_personal_errors_are_those_of_the_guarantee(tmp_path):
    sketch, (site, *_) = collected(3), sites(3)
    cal = sketch.personalise(site.label_counts, 0.1)
    mix = personal.LabelMix.of(sketch, "counted", label_counts=site.label_counts)
    assert mix.counted == len(site)
    assert mix.wanted == pytest.approx(site.label_counts / len(site))
    shares = personal.LabelMix.of(sketch, "given", label_counts=[0.5, 0.25, 0.25])
    mixed = mixture(sketch.table, shares.wanted)
    assert shares.counted is None
    assert shares.variance(mixed, (0.1,)) == pytest.approx([0.0])
    personal.write(tmp_path / "p.html", sketch, cal, tmp_path / "c.json", mix)
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    stated = re.search(r"calibration sample (0\.\d+)", cal.guarantee)
    shown = re.search(r"calibration sample (\d\.\d+)", html)
    assert stated
    assert shown
    assert float(shown[1]) == pytest.approx(100 * float(stated[1]), abs=0.051)
    assert "Does it hold at home?" not in html


def test_personal_page_of_a_mix_guessed_from_predictions(tmp_path):
    sketch = collected(3)
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    cal = sketch.personalise(probabilities=probs, alpha=[0.02 * k for k in range(1, 13)])
    mix = personal.LabelMix.of(sketch, "estimated", probabilities=probs)
    personal.write(tmp_path / "p.html", sketch, cal, tmp_path / "c.json", mix)
    text = plain((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert "8 of 12 levels are marked" in text
    assert "label mix: estimated" in text

"""The pages of `collect` and `personalise`: readable at any size, honest, and self-contained."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch

import fedcover as fc
from fedcover.certificate import Certificate
from fedcover.methods.sketch.personalise import LabelMix
from fedcover.methods.sketch.table import Layout, standard_cuts
from fedcover.position import TOP, positions
from fedcover.report import own_records, personal
from fedcover.report import sketch as page
from fedcover.report.figures import sketch as figures
from fedcover.report.figures import style
from fedcover.report.score_axis import ScoreAxis, score_text
from fedcover.report.sketch import MOST_COLUMNS, MOST_ROWS, heat
from tests.report.test_figures import check_texts

pytestmark = [pytest.mark.figures, pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")]

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
    return figures.heat_map(
        shown.cells, names, shown.totals, shown.axis, shown.places,
        ylabel=shown.row_is, noise=shown.noise, width=width,
    )  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("epsilon", [None, 50])
@pytest.mark.parametrize("n_classes", [3, 100, 1000])
def test_heat_map_of_few_and_many_labels(n_classes, epsilon, width):
    figure = drawn(collected(n_classes, epsilon), width)
    axes = figure.axes[0]
    assert axes.get_xlabel()
    assert axes.get_ylabel() == "label"
    assert 3 <= len(axes.get_yticks()) <= MOST_ROWS
    assert 3 <= len(axes.get_xticks()) <= 16
    check_texts(figure)


@pytest.mark.parametrize("options", [
    {"bins": 64}, {"bins": 67}, {"bins": 4096}, {"bins": [0, 0.5, 0.98, 0.99, 1]},
    {"bins": np.linspace(0, 1, 21)}, {"groups": [k // 7 for k in range(60)]},
])  # fmt: skip
@pytest.mark.parametrize("width", WIDTHS)
def test_heat_map_of_any_bins_and_groups(options, width):
    check_texts(drawn(collected(60, 20, **options), width))


AXES = {
    "standard": standard_cuts(1840),
    "few": tuple(positions([0.3, 0.5, 0.99])),
    "one end": tuple(positions(1 - np.array([0.4, 1e-6, 1e-300]), [0.4, 1e-6, 1e-300])),
}


@pytest.mark.parametrize("cuts", AXES.values(), ids=AXES)
def test_axis_is_even_in_bins_and_increasing_within_them(cuts):
    axis = ScoreAxis.of(Layout(3, cuts))
    bins = len(cuts) + 1
    assert axis.places(axis.edges) == pytest.approx(np.arange(bins + 1) / bins)
    at = np.linspace(0, TOP, 1001).astype(np.int64)
    assert (np.diff(axis.places(at)) >= 0).all()
    assert np.isfinite(axis.places(at)).all()
    (low, *_), (high, *_) = axis.ticks(5.0)[0], axis.ticks(5.0)[-1]
    assert (low, high) == (0, 1)


def test_ticks_near_one_say_the_distance():
    texts = [text for _, text in ScoreAxis.of(Layout(3, standard_cuts(1840))).ticks(5.4)]
    assert {"0", "0.5", "1 - 1e-9", "1"} <= set(texts)
    near = positions([1 - 1e-6, 1.0, 1e-7, 0.25], [1e-6, 1e-20, 1.0, 0.75])
    assert [score_text(p) for p in near] == ["1 - 1e-6", "1 - 1e-20", "1e-7", "0.2500"]
    assert (score_text(TOP), score_text(np.int64(0))) == ("1", "0")


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
    assert len(shown.places) == columns + 1
    assert (shown.places[0], shown.places[-1]) == (0, 1)
    pool = -(-n_classes // MOST_ROWS)
    some = sites(n_classes)
    mine = [np.isin(s.labels, np.arange(pool, 2 * pool)) for s in some]
    assert shown.cells[1].sum() == np.concatenate(mine).sum()
    at = shown.axis.places(
        np.concatenate([s.positions[k] for s, k in zip(some, mine, strict=True)])
    )
    inside = np.searchsorted(shown.places, at, side="left") - 1  # a bin holds its upper edge
    assert np.array_equal(shown.cells[1], np.bincount(inside, minlength=columns))


def test_names_fit_or_become_numbers():
    shown = heat(collected(100).table, [f"a very long name of label {k}" for k in range(100)])
    assert shown.names(80)[0] == "a very long name of label 0 to a very long name of label 2"
    assert shown.names(24)[:2] == ["0 to 2", "3 to 5"]
    assert shown.names(24)[-1] == "99"
    assert style.shortened("abcdef", 4) == "abc…"
    sketch = collected(4, groups=["x", "y", "x", "x"])
    assert heat(sketch.table, None, ["x", "y", "x", "x"]).names(24) == ["x (3)", "y (1)"]
    assert heat(sketch.table).names(24)[0] == "3 labels: 0, 2, 3, …"


def test_noise_of_a_column_is_that_of_its_sum():
    """Deviation over 40 × 32 cells: .02 of it is one standard error, a tenth is five."""
    one = fc.Site("a", [0.5], [0], n_classes=40)
    shown = heat(fc.collect([one], privacy=fc.Privacy(1, 1e-5, relation="add-remove")).table)
    assert shown.cells.shape == (40, MOST_COLUMNS)
    assert shown.cells.std() == pytest.approx(shown.noise, rel=0.1)
    assert heat(collected(3).table).noise == 0


def test_negative_cells_are_shown_as_such():
    figure = drawn(collected(20, 5), style.WIDE)
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
@pytest.mark.parametrize("text", ["{:.4f} to {:.4f}", "1 - {:.5f} to 1 - {:.5f}"])
@pytest.mark.parametrize("levels", [1, 3, 8])
def test_personal_figures(levels, text, width):
    places, axis = np.linspace(0, 1, 50), ScoreAxis.of(Layout(3, standard_cuts(1840)))
    marks = [
        figures.Mark(a, text.format(1 - a, 1.001 - a), 1 - a, 1 - a)
        for a in np.round(np.linspace(0.01, 0.3, levels), 3)
    ]
    own = np.linspace(0, 1, 20), np.linspace(0.05, 1, 20)
    spread = np.full(50, 0.02)
    figure = figures.distribution(axis, places, places, spread, marks, own, width=width)
    assert figure.axes[0].get_xlabel()
    assert figure.axes[0].get_ylabel()
    check_texts(figure)
    parts = {"calibration sample": 0.01, "unlike labels in a group": 0.002}
    figure = figures.error_parts(parts, {"all together": 0.0102}, width=width)
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
    assert "not new ones" in text
    assert "for α from 0.02 to 0.5" in text
    assert text.count("Assumed: ") == 2
    assert "not covered by ε" in text
    if epsilon:
        for part in ("ε = 2", "δ = 1e-05", "one record", "replace", "server", "Privacy noise of ±"):
            assert part in text
    else:
        assert "none: the counts are exact" in text


def test_collect_page_without_records_of_sites(tmp_path):
    text = plain(written(tmp_path, collected(3), []))
    assert "What is in the table?" in text
    assert "Does every site get" not in text
    assert "not covered by ε" not in text


def test_the_page_is_the_same_every_time(tmp_path):
    pages = [written(tmp_path, collected(30), sites(30), name) for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("n_classes", [100, 1000])
def test_pages_of_many_labels_stay_small(tmp_path, n_classes):
    written(tmp_path, collected(n_classes), sites(n_classes))
    assert (tmp_path / "p.html").stat().st_size < 600_000


def test_secure_sums_are_told_apart(tmp_path):
    privacy = fc.Privacy(2, 1e-5, unit="site", relation="add-remove", view="secure-sum")
    sketch = fc.collect(sites(3), fc.methods.Sketch(most_per_site=50), privacy)
    text = plain(written(tmp_path, sketch, sites(3)))
    assert "only the sum of the noisy tables" in text
    assert "all data of one site" in text
    assert "about" in text


def personal_page(tmp_path, sketch, cal, mix, said="counted", site=None, use_own=False):
    place = tmp_path / "p.html"
    personal.write(place, sketch, cal, tmp_path / "c.json", mix, said, site, use_own)
    return place.read_text(encoding="utf-8")


def counted(site):
    return LabelMix(site.label_counts / len(site), site.label_counts)


@pytest.mark.parametrize("epsilon", [None, 8.0])
@pytest.mark.parametrize("use_own", [False, True])
def test_personal_page_says_what_it_must(tmp_path, epsilon, use_own):
    sketch, (site, *_) = collected(3, epsilon), sites(3)
    own = site.scores if use_own else None
    levels = [0.05, 0.1, 0.2]
    cal = sketch.personalise(site.label_counts, levels, local_scores=own, name=site.name)
    html = personal_page(tmp_path, sketch, cal, counted(site), "400 counted labels", site, use_own)
    assert not re.search(r"https?:|<script|<link|<img|src=|@import", html)
    text = plain(" ".join(html.split()))
    assert "No message was sent" in text
    assert "n = 1,230 records, label mix: 400 counted labels" in text
    assert "Does it hold at home?" in text
    assert "not new ones" in text
    assert ("own scores blended in" in html) == use_own
    assert ("privacy noise" in html) == (epsilon is not None)
    assert html.count("<svg") == 6
    for level, error in zip(levels, cal.coverage_error, strict=True):
        assert f"α = {level:g}" in text
        assert f"± {100 * error:.2f}" in text


def test_personal_page_of_a_certified_calibration(tmp_path):
    sketch, (site, *_) = collected(3), sites(3)
    sure = Certificate(0.97, "At least 1-α with probability .97, over records & noise.")
    cal = replace(sketch.personalise(site.label_counts, 0.1), certificate=sure)
    text = plain(personal_page(tmp_path, sketch, cal, counted(site), site=site))
    assert "97%" in text
    assert "over records &amp; noise" in text


def test_personal_errors_are_those_stated(tmp_path):
    sketch, (site, *_) = collected(3), sites(3)
    cal = sketch.personalise(site.label_counts, 0.1)
    html = personal_page(tmp_path, sketch, cal, counted(site))
    total = re.search(r"all together (\d\.\d+)", html)
    assert total
    assert float(total[1]) == pytest.approx(100 * cal.coverage_error[0], abs=0.0051)
    assert "Does it hold at home?" not in html


def test_personal_page_of_a_mix_guessed_from_predictions(tmp_path):
    sketch = collected(3)
    rng = np.random.default_rng(0)
    cal = sketch.personalise([1, 1, 1], alpha=[0.02 * k for k in range(1, 13)])
    mix = LabelMix(np.full(3, 1 / 3), draws=rng.dirichlet(np.full(3, 20), 50))
    text = plain(personal_page(tmp_path, sketch, cal, mix, "estimated"))
    assert "8 of 12 levels are marked" in text
    assert "label mix: estimated" in text


@pytest.mark.parametrize("sure", [False, True])
def test_saturated_scores_are_told_by_their_distance(tmp_path, sure):
    far = np.geomspace(1e-12, 1e-5, 600)
    site = fc.Site("a", 1 - far, np.arange(600) % 3, n_classes=3, distances=far)
    sketch = fc.collect([site])
    cal = sketch.personalise(site.label_counts, [0.1, 0.3], name="a")
    text = plain(personal_page(tmp_path, sketch, cal, counted(site), site=site, use_own=sure))
    assert re.search(r"1 - [2-8](\.\d)?e-12", text)
    covered = own_records.covered_by(cal, site)
    assert covered == pytest.approx([0.9, 0.7], abs=0.01)

"""Figures: labelled axes, texts that do not collide, and no trace left in matplotlib's settings."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

import fedcover
from fedcover.report.estimate import Estimate, over_repetitions
from fedcover.report.figures import charts as figures
from fedcover.report.figures import style

pytestmark = pytest.mark.figures

SITES = ["Lakeside", "Northgate", "Mercy"]


def estimate(mean: float) -> Estimate:
    return Estimate(mean, mean - 0.005, mean + 0.005, mean - 0.04, min(1, mean + 0.04), 100)


def coverage(width: float = style.WIDE) -> Figure:
    panels = {
        "Local": [estimate(v) for v in (0.9, 0.905, 0.92)],
        "Global": [estimate(v) for v in (0.95, 0.9, 0.8)],
    }
    return figures.coverage(panels, SITES, 0.9, width=width)


def set_sizes(width: float = style.WIDE) -> Figure:
    shares = np.array([[0.1, 0.6, 0.3], [0.0, 0.5, 0.5]])
    names = [*SITES, "Harbour", "All"]
    means = {name: [1.2, 1.5] for name in names}
    levels = ["none", "1", "2 or more"]
    panels = dict.fromkeys(names, shares)
    return figures.set_sizes(panels, means, ["Local", "Global"], levels, width=width)


def score_curves(width: float = style.WIDE) -> Figure:
    rng = np.random.default_rng(0)
    scores = {f"digit {k}": rng.beta(1 + k, 2, 100) for k in range(9)}
    return figures.score_curves(scores, 0.8, 0.9, width=width)


def label_mix(width: float = style.WIDE) -> Figure:
    shares = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.0, 1.0, 0.0]])
    return figures.label_mix(
        shares, SITES, ["a", "b", "c"], xlabel="label", ylabel="site", width=width
    )


ALL = [coverage, set_sizes, score_curves, label_mix]


def texts(figure: Figure) -> list[Text]:
    """What a reader sees: no tick labels outside the axis, no hidden panels."""
    unseen: set[Text] = set()
    for panel in figure.axes:
        if not panel.get_visible():
            unseen.update(panel.findobj(Text))
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                unseen.add(tick.label2)
                if not low <= tick.get_loc() <= high:
                    unseen.add(tick.label1)
    found = [text for text in figure.findobj(Text) if text.get_text().strip()]
    return [text for text in found if text.get_visible() and text not in unseen]


def check_texts(figure: Figure) -> None:
    """No two texts overlap, and none leaves the figure by more than a hair."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts(figure)]
    assert len(boxes) > 5
    for (a, one), (b, two) in itertools.combinations(boxes, 2):
        width = min(one.x1, two.x1) - max(one.x0, two.x0)
        height = min(one.y1, two.y1) - max(one.y0, two.y0)
        assert width < 1 or height < 1, f"{a!r} and {b!r} overlap by {width:.1f} x {height:.1f}"
    for name, box in boxes:
        assert box.x0 > -3, name
        assert box.x1 < figure.bbox.width + 3, name
        assert box.y0 > -3, name
        assert box.y1 < figure.bbox.height + 3, name


@pytest.mark.parametrize("width", [style.WIDE, style.NARROW])
@pytest.mark.parametrize("draw", ALL)
def test_axes_are_labelled_and_texts_do_not_collide(draw, width):
    figure = draw(width)
    panels = [a for a in figure.axes if a.get_visible()]
    assert figure.get_supxlabel() or all(a.get_xlabel() for a in panels)
    named_rows = all(len(a.get_yticks()) for a in panels)
    assert figure.get_supylabel() or panels[0].get_ylabel() or named_rows
    check_texts(figure)


@pytest.mark.parametrize("draw", ALL)
def test_settings_of_the_user_stay(draw):
    before = dict(matplotlib.rcParams)
    style.inline_svg(style.svg(draw()), "x", "alt")
    assert dict(matplotlib.rcParams) == before


def test_verdict_shows_as_colour_and_as_marker():
    figure = coverage()
    seen = {
        (to_hex(line.get_color()), line.get_marker())
        for line in figure.axes[1].lines
        if line.get_marker() != "None"
    }
    assert seen == {(style.GREEN, "^"), (style.BLUE, "o"), (style.ORANGE, "v")}


def test_bars_and_cells_carry_the_numbers():
    figure = set_sizes()
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == pytest.approx([10, 0, 60, 50, 30, 50])
    cells = [t.get_text() for t in label_mix().axes[0].texts]
    assert cells == ["50", "30", "20", "10", "10", "80", "0", "100", "0"]


def test_curve_is_the_empirical_distribution():
    values = np.array([0.1, 0.2, 0.6, 0.9])
    figure = figures.score_curves({"a": values}, 0.5, 0.9)
    assert "a: 50%" in [a.get_title(loc="left") for a in figure.axes]
    x, y = figure.axes[0].lines[3].get_data()
    assert list(x) == [0, 0.1, 0.2, 0.6, 0.9, 1]
    assert list(y) == [0, 25, 50, 75, 100, 100]


def test_inline_svg_is_scalable_transparent_and_in_css_colours():
    svg = style.inline_svg(style.svg(coverage()), "pre", 'says "a < b" & more')
    assert svg.startswith("<svg role")
    assert 'aria-label="says &quot;a &lt; b&quot; &amp; more"' in svg
    assert "http" not in svg
    assert "var(--orange)" in svg
    assert all(i.startswith("pre-") for i in re.findall(r'\bid="([^"]*)"', svg))
    assert svg == style.inline_svg(style.svg(coverage()), "pre", 'says "a < b" & more'), (
        "not reproducible"
    )


def test_saves_svg_and_png(tmp_path):
    figure = label_mix()
    style.save(figure, style.svg(figure), tmp_path, "mix")
    assert (tmp_path / "mix.png").read_bytes().startswith(b"\x89PNG")
    root = ElementTree.fromstring((tmp_path / "mix.svg").read_text())
    assert root.tag.endswith("svg")
    assert root[0].attrib["fill"] == "white"


def test_figures_alone_import_matplotlib():
    root = Path(fedcover.__file__).parent
    importers = set()
    for file in root.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        for_types = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in set(ast.walk(tree)) - for_types:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "matplotlib" for name in names):
                importers.add(file.relative_to(root).parent.as_posix())
    assert importers == {"report/figures"}


def test_over_repetitions():
    e = over_repetitions([0.8, 0.9, 1.0])
    assert e.mean == pytest.approx(0.9)
    assert e.half_width == pytest.approx(4.302653 * 0.1 / np.sqrt(3), rel=1e-6)
    assert (e.least, e.most) == pytest.approx((0.81, 0.99))
    with pytest.raises(ValueError, match="at least two"):
        over_repetitions([0.9])


@pytest.mark.parametrize(
    ("mean", "half", "verdict"),
    [
        (0.85, 0.01, "below"),
        (0.85, 0.06, "on"),  # within chance
        (0.895, 0.001, "on"),  # beyond chance, but by a hair
        (0.93, 0.01, "above"),
        (0.905, 0.001, "on"),
    ],
)
def test_verdict(mean, half, verdict):
    e = Estimate(mean, mean - half, mean + half, 0.0, 1.0, 100)
    assert e.verdict(0.9) == verdict
    assert e.keeps(0.9) == (mean > 0.89)

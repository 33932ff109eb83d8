"""A whole run of the demo: files, page, and numbers that agree with results.csv."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import t

import fedcover as fc
from fedcover.cli.reproduce import reproduce
from fedcover.errors import FedcoverError
from fedcover.experiments import records, runner
from fedcover.experiments.demo import command, data, study, text
from fedcover.experiments.demo.results import OURS, PRIVATE, DemoResults, budget
from fedcover.report.estimate import Estimate

pytestmark = [pytest.mark.figures, pytest.mark.xdist_group("demo")]

FIGURES = ("coverage", "set-sizes", "scores-by-label", "label-mix")
VOID = {"meta", "br", "img", "link"}


class Page(HTMLParser):
    """Checks that tags are closed; collects tables as text, ids, and what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.loads: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        given = dict(attrs)
        if "id" in given:
            self.ids.append(given["id"])
        if tag in ("script", "link", "img", "iframe", "object"):
            self.loads.append(tag)
        self.loads += [v for k, v in attrs if k in ("src", "href") and not v.startswith("#")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "small":
            self.tables[-1][-1][-1] += "\n"

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.tables[-1][-1][-1] = self.tables[-1][-1][-1].strip()

    def handle_data(self, text):
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += " ".join(text.split("\n")) if text.strip() else ""


@pytest.fixture(scope="module")
def page(tiny_run):
    text = (tiny_run.folder / "report.html").read_text(encoding="utf-8")
    parser = Page()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return text, parser


@pytest.fixture(scope="module")
def measured(tiny_run):
    """From results.csv: (method, site) -> coverages and sizes, one per repetition."""
    found = defaultdict(lambda: ([], []))
    with (tiny_run.folder / "results.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            coverage, size = found[row["method"], row["site"]]
            coverage.append(float(row["coverage"]))
            size.append(float(row["mean_size"]))
    return found


def interval(values):
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values), half


def shown(values):
    mean, half = interval(values)
    return f"{100 * mean:.1f} ± {100 * half:.1f}"


def test_writes_every_file(tiny_run):
    names = {p.name for p in tiny_run.folder.iterdir()}
    wanted = {"report.html", "results.csv", command.CALIBRATIONS}
    wanted |= {f"{f}.{ending}" for f in FIGURES for ending in ("svg", "png")}
    for h in data.HOSPITALS:
        wanted |= {f"site-{h.name}.npz", f"new-{h.name}.npz"}
    assert names == wanted
    made = {p.name for p in (tiny_run.folder / command.CALIBRATIONS).iterdir()}
    assert made == {f"{h.name}.json" for h in data.HOSPITALS}


def test_results_have_one_row_per_repetition_site_and_method(measured):
    assert len(measured) == 9 * 5
    assert all(len(coverage) == 2 for coverage, _ in measured.values())


def test_page_is_whole_and_loads_nothing(page):
    text, parser = page
    assert parser.loads == []
    assert not re.search(r"https?://|@import|<script|javascript:", text)
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {f"#{i}" for i in parser.ids}
    assert len(parser.ids) == len(set(parser.ids))


def test_figures_are_inline_twice_in_css_colours_with_words(page):
    drawings = re.findall(r"<svg.*?</svg>", page[0], flags=re.DOTALL)
    assert len(drawings) == 2 * len(FIGURES)
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        assert len(root.attrib["aria-label"]) > 50
        assert "viewBox" in root.attrib
        assert "width" not in root.attrib
        assert "var(--ink)" in drawing
        assert not re.search(r"#1b1f24|#0072b2", drawing)


def test_table_equals_results_csv(page, measured):
    rows = {row[0]: row for row in page[1].tables[0][1:]}
    for method in rows:
        sites = {s: values for (m, s), values in measured.items() if m == method}
        assert rows[method][1] == shown(sites[data.SMALL.name][0])
        worst = min(sites, key=lambda s: np.mean(sites[s][0]))
        assert rows[method][2] == f"{shown(sites[worst][0])}\n{worst.title()}"
        mean, half = interval(sites[data.SMALL.name][1])
        everywhere = np.mean([size for _, size in sites.values()])
        assert rows[method][3] == f"{mean:.2f} ± {half:.2f}\nall sites {everywhere:.2f}"
    assert len(rows) == 9


def test_folded_table_equals_results_csv(page, measured):
    rows = page[1].tables[1]
    for row in rows[1:]:
        for h, cell in zip(data.HOSPITALS, row[1:], strict=True):
            coverage, size = measured[row[0], h.name]
            mean, half = interval(size)
            assert cell == f"{shown(coverage)}\n{mean:.2f} ± {half:.2f} labels"


def test_terminal_table_equals_results_csv(tiny_run, measured):
    for (_, site), (coverage, _) in measured.items():
        if site == data.SMALL.name:
            assert shown(coverage) in tiny_run.printed
    for heading in (
        "rounds",
        "sent",
        "ε",
        "leave?",
        "Mercy",
        "nothing was sent",
        "no differential",
    ):
        assert heading in tiny_run.printed
    assert "report.html" in tiny_run.printed
    assert "…" not in tiny_run.printed, "the table does not fit into 80 columns"


@pytest.fixture(scope="module")
def again():
    """The results of the tiny run, made once more."""
    return DemoResults.of(runner.in_memory(study.DemoStudy(), 2, 1))


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_shows_a_picture_before_the_table_and_breaks_no_word(again, width):
    screen = io.StringIO()
    command.show(again, Path("out"), Console(file=screen, width=width))
    lines = screen.getvalue().splitlines()
    paths = [line for line in lines if line.startswith(("Report:", "Try next:"))]
    assert len(paths) == 2
    assert max(len(line) for line in lines if line not in paths) <= width
    assert "…" not in screen.getvalue()
    for name in again.names:
        drawn, tabled = (k for k, line in enumerate(lines) if line.startswith(f"{name}  "))
        assert drawn < tabled
        marks = re.findall(r"[·│▼●▲]{9}", lines[drawn])
        verdicts = [command.MARKERS[e.verdict(0.9)] for e in again.coverages(name)]
        assert [re.sub("[·│]", "", mark) for mark in marks] == verdicts
    cells = next(line.split() for line in lines[::-1] if line.startswith(PRIVATE))
    assert cells[-2:] == [f"{budget(0.1).epsilon:g}", "no"]


def test_a_mark_is_below_its_promise_only_where_the_mean_is():
    places = [
        command.mark(Estimate(mean, mean, mean, mean, mean, 5), 0.9, 0.1)
        for mean in (0.8, 0.85, 0.9, 0.95, 1.0)
    ]
    found = [re.search("[▼●▲]", re.sub(r"\[.*?\]", "", place)).start() for place in places]
    assert found == [0, 2, 4, 6, 8]


def test_commands_of_the_readme_overwrite_no_file_of_the_demo(tiny_run):
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("cd fedcover-demo") :]
    written = re.findall(r"--(?:out|report) (\S+)", block[: block.index("```")])
    assert len(written) >= 4
    assert [name for name in written if (tiny_run.folder / name).exists()] == []


def test_calibration_files_give_the_coverage_of_the_last_repetition(tiny_run, measured):
    """The files can be used as the other commands would use them."""
    for h in data.HOSPITALS:
        cal = fc.Calibration.load(tiny_run.folder / command.CALIBRATIONS / f"{h.name}.json")
        with np.load(tiny_run.folder / f"new-{h.name}.npz", allow_pickle=False) as new:
            sets = cal.predict_set(new["probs"], seed=0)
            coverage = sets.coverage(new["labels"])
            assert tuple(new["label_names"]) == data.LABEL_NAMES
        # The random part of the scores differs, the records are the same 200.
        assert coverage == pytest.approx(measured[OURS, h.name][0][-1], abs=0.08)
        site = fc.Site.from_file(tiny_run.folder / f"site-{h.name}.npz", seed=0)
        assert len(site) == h.size


@pytest.fixture(scope="module")
def plain(page):
    """The page as a reader sees it, in order, without the figures."""
    text = re.sub(r"<svg.*?</svg>|<style.*?</style>|<[^>]+>", "", page[0], flags=re.DOTALL)
    return html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")


def test_page_states_guarantees_reveals_and_how_to_reproduce(plain):
    for method in (fc.methods.Local(), fc.methods.Pooled(), fc.methods.DPFedCP()):
        for words in (method.guarantee, method.reveals):
            assert words[1:] in plain
    assert "fedcover demo --alpha 0.1 --repetitions 2 --seed 1" in plain
    assert f"fedcover {fc.__version__}" in plain


def test_lead_says_simulation_selection_and_no_differential_privacy(plain):
    lead = plain[: plain.index("Words used here")]
    for part in ("nothing was sent", "chosen so that", "no differential privacy", "α = 0.1"):
        assert part in lead
    assert re.search(r"raw scores leave a hospital with DP-FedCP; but exact label counts do", lead)
    assert "within one millionth of one record's score" in lead
    table = plain[plain.index("All methods side by side") : plain.index("What leaves each site")]
    assert "nothing was sent" in table


def test_words_are_explained_before_the_first_table(plain):
    box = plain[plain.index("Words used here") : plain.index("All methods side by side")]
    for word in ("α", "Score", "APS", "Round", "Split", "ε", "DP-FedCP"):
        assert f"{word}\n" in box or f"{word} (" in box


def test_officer_reads_who_receives_what_after_the_coverage(plain, page):
    order = ("Does every hospital", "What leaves each site", "can still give away", "How big are")
    assert list(map(plain.index, order)) == sorted(map(plain.index, order))
    assert "it sees a secure sum, the total of all hospitals" in plain
    assert "The site-*.npz hold the records" in plain
    for table, column in ((page[1].tables[0], 6), (page[1].tables[2], 4)):
        said = {row[0]: row[column] for row in table[1:]}
        assert said.pop("Local") == "nothing sent"
        assert said.pop(PRIVATE) == f"{budget(0.1).epsilon:g}"
        assert set(said.values()) == {"no guarantee"}


def test_every_field_of_the_file_is_named(tiny_run):
    file = tiny_run.folder / command.CALIBRATIONS / f"{data.SMALL.name}.json"
    named = [field for fields in text.IN_THE_FILE.values() for field in fields]
    assert sorted(named) == sorted(json.loads(file.read_text(encoding="utf-8"))["calibration"])


def test_a_hospital_can_work_out_the_mix_of_the_others(tiny_run):
    """What the page warns of: own counts and the weights of all give every label mix."""
    sites = [fc.Site.from_file(tiny_run.folder / f"site-{h.name}.npz") for h in data.HOSPITALS]
    made = fc.calibrate(sites, 0.1, seed=0)
    mix = np.array([s.label_counts / len(s) for s in sites])
    weights = np.array([made[s.name].ratios for s in sites])
    seen = mix[0] > 0
    guess = weights[:, seen] * (mix[0, seen] / weights[0, seen])
    np.testing.assert_allclose(guess, mix[:, seen], atol=1e-9)


def test_a_threshold_is_nearly_a_score(tiny_run):
    sites = [
        fc.Site.from_file(tiny_run.folder / f"site-{h.name}.npz", seed=0) for h in data.HOSPITALS
    ]
    scores = np.concatenate([s.scores for s in sites])
    for cal in fc.calibrate(sites, 0.1, seed=0).values():
        found = cal.thresholds[cal.thresholds < 1]
        assert found.size
        assert np.abs(found[:, None] - scores).min(axis=1).max() <= 1e-6


def test_nothing_on_the_page_names_a_machine(tiny_run, page):
    assert str(tiny_run.folder.parent) not in page[0]


def test_as_any_other_experiment_it_gives_the_same_results(tiny_run, measured, tmp_path):
    reproduce("demo", tmp_path, repetitions=2, seed=1, workers=1)
    table = records.load(tmp_path / "demo.parquet")
    for (method, site), (coverage, size) in measured.items():
        own = table.where(method=method, site=site)
        assert own.columns["coverage"].tolist() == coverage
        assert own.columns["size"].tolist() == size
    text = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert "All methods side by side" in text
    assert {p.stem for p in (tmp_path / "figures").glob("*.svg")} == set(FIGURES)


@pytest.mark.parametrize(
    "bad", [{"repetitions": 1}, {"alpha": 0.0}, {"alpha": 1.5}, {"seed": -1}, {"repetitions": 2.5}]
)
def test_refuses_before_any_work(tmp_path, bad):
    out = tmp_path / "out"
    with pytest.raises(FedcoverError):
        command.run(out, console=Console(file=io.StringIO()), **bad)
    assert not out.exists()


def test_refuses_a_file_as_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FedcoverError, match="cannot be made a folder"):
        command.run(tmp_path / "taken", console=Console(file=io.StringIO()))

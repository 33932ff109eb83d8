"""The page: every kind of section, text escaped, nothing loaded from elsewhere."""

from __future__ import annotations

import re

import pytest

from fedcover.report.page import Fact, Plot, Table, Text, save_figures, write_page
from tests.report.test_figures import label_mix


@pytest.fixture(scope="module")
def sections():
    return [
        Table(
            "Methods",
            ["Method", "Coverage", "Why"],
            [["DP-FedCP", "90.1 ± 0.2\nMercy", "a < b"], ["Local", "1", "x & y"]],
            caption="n = 5",
            answer="Both work.\nBoth cost.",
            strong=["DP-FedCP"],
            text_columns=["Why"],
        ),
        Table("Show more", ["a", "b"], [["1", "2"]], folded=True),
        Plot("How?", "So.", "mix", label_mix(), label_mix(4.0), "Caption.", "Alternative text"),
        Text("Glossary", terms=[("set", "a list")], boxed=True),
        Text("Words", ["<b>not bold</b>"], [("term", "meaning")], ["fedcover demo", "second"]),
    ]


@pytest.fixture(scope="module")
def page(sections, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    facts = [Fact("90%", "promised"), Fact("80%", "kept", "bad")]
    write_page(path, "A DP-FedCP title", ["Lead."], sections, facts=facts, kicker="k", footer="f")
    return path.read_text(encoding="utf-8")


def test_text_is_escaped(page):
    assert "<b>not bold" not in page
    assert "&lt;b&gt;not bold" in page
    assert "a &lt; b" in page


def test_sections_in_order_with_their_parts(page):
    titles = re.findall(r"<h2>(.*?)</h2>|<summary>(.*?)</summary>", page)
    assert ["".join(t) for t in titles] == ["Methods", "Show more", "How?", "Glossary", "Words"]
    for part in ("Lead.", "Both work.", "Caption.", "<dt>term</dt>", "fedcover demo\nsecond"):
        assert part in page
    assert 'class="fact bad"' in page
    assert "<p>Both work.</p>\n<p>Both cost.</p>" in page
    assert page.count('<dl class="boxed">') == page.count("<dl>") == 1


def test_narrow_windows_get_cards_and_their_own_figure(page):
    assert 'data-column="Coverage"' in page
    assert page.count("<svg") == 2
    assert "max-width: 43rem" in page
    assert "prefers-color-scheme: dark" in page


def test_names_with_hyphens_stay_on_one_line(page):
    assert '<h1>A <span class="unbroken">DP-FedCP</span> title</h1>' in page
    assert "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}5" in page


def test_nothing_is_loaded(page):
    assert not re.search(r"https?:|<script|<link|<img|src=|@import", page)


def test_second_line_of_a_cell_is_small(page):
    assert "<span>90.1 ± 0.2<small>Mercy</small></span>" in page


def test_figures_are_saved_beside_the_page(sections, tmp_path):
    save_figures(sections, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"mix.svg", "mix.png"}


def test_a_page_without_extras_has_no_empty_parts(tmp_path):
    write_page(tmp_path / "p.html", "T", [], [Text("Only", ["x"])])
    body = (tmp_path / "p.html").read_text().split("</style>")[1]
    for part in ("facts", "kicker", "footer", "<dl>", "<pre>", "<table"):
        assert part not in body

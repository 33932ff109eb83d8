"""Sentences and verdicts follow from the numbers, whatever they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedcover.experiments import runner
from fedcover.experiments.demo import data, study, text
from fedcover.experiments.demo.results import GLOBAL, LOCAL, OURS, DemoResults
from fedcover.report.figures.style import NARROW
from tests.report.test_figures import check_texts

pytestmark = pytest.mark.xdist_group("demo-words")


def results(coverage: dict[str, list[float]], alpha: float = 0.1) -> DemoResults:
    """Results with the given mean coverages per site and a little spread over repetitions."""
    coverage = coverage | dict.fromkeys(text.SKETCHES, FLAT)
    means = np.array(list(coverage.values()))
    wobble = np.array([-0.004, 0.0, 0.004, 0.002, -0.002])[:, None, None]
    private: Any = SimpleNamespace(shares_scores=False)
    nothing: Any = None
    made: Any = {data.SMALL.name: SimpleNamespace(options={"gamma": 1e-6}, privacy=None)}
    return DemoResults(
        federation=data.Federation(np.empty((0, 10)), np.empty(0, dtype=np.int64), 0, 0.7),
        alpha=alpha,
        seed=0,
        methods=dict.fromkeys(coverage, private),
        coverage=means + wobble,
        size=np.ones((5, *means.shape)),
        size_counts=np.ones((*means.shape, 11), dtype=np.int64),
        bytes_up=np.zeros(len(means)),
        bytes_down=np.zeros(len(means)),
        rounds=np.full(len(means), 6.0),
        calibrations=dict.fromkeys(coverage, made),
        split=nothing,
        global_threshold=0.9,
        apart=9e-7,
        too_few=Counter({(LOCAL, "mercy"): 2}),
    )


FLAT = [0.9] * 5


def test_headline_names_the_hospital_that_global_fails():
    found = results({LOCAL: FLAT, GLOBAL: [0.93, 0.9, 0.9, 0.87, 0.8], OURS: FLAT})
    said = text.headline(found)
    for part in ("Mercy 80.0%", "promised 90%", "DP-FedCP gives every hospital its 90%"):
        assert part in said
    first, second, *_ = text.reading(found)
    assert "Mercy 80.0% and Riverside 87.0%; Lakeside 93.0% gets more" in first
    assert "90.0 to 90.0%" in second
    assert "6 rounds" in second
    assert "no raw score leaves" in second


def test_headline_does_not_claim_what_did_not_happen():
    good_global = results({LOCAL: FLAT, GLOBAL: FLAT, OURS: [0.9, 0.9, 0.9, 0.9, 0.85]})
    said = text.headline(good_global)
    assert "keeps the promised 90%" in said
    assert "Mercy" not in said
    assert "every hospital its" not in said
    assert "85.0 to 90.0%" in said
    assert "falls short at no hospital" in text.reading(good_global)[0]


@pytest.mark.parametrize(
    ("ours", "alone", "part"),
    [(5.2, 5.6, "smaller sets (5.20"), (5.6, 5.2, "larger sets (5.60"), (5, 5, "sets as large (5")],
)
def test_what_ours_buys_over_local_follows_from_the_sizes(ours, alone, part):
    found = results({LOCAL: FLAT, GLOBAL: FLAT, OURS: FLAT})
    wobble = np.array([-0.01, 0.01, 0.0, 0.02, -0.02])
    found.size[:, 0, -1], found.size[:, 2, -1] = alone + wobble, ours - wobble
    said = text.over_local(found)
    assert part in said
    assert f"Local: {alone:.2f}" in said
    assert "differ by at most 0.00 labels" in said


def test_spread_is_called_narrower_only_if_it_is():
    found = results({LOCAL: FLAT, GLOBAL: FLAT, OURS: FLAT})
    assert "the same spread" in text.over_local(found)
    found.coverage[:, 0] += np.array([-0.05, 0.05, 0, 0, 0])[:, None]
    assert "a narrower spread" in text.over_local(found)
    found.coverage[:, 2] += np.array([-0.1, 0.1, 0, 0, 0])[:, None]
    assert "a wider spread" in text.over_local(found)


def test_thresholds_are_called_equal_only_if_they_are():
    found = results({LOCAL: FLAT, GLOBAL: FLAT, OURS: FLAT})
    assert "differ by at most one millionth in all 5 splits" in text.same_thresholds(found)
    assert "differ by up to 0.02 in" in text.same_thresholds(replace(found, apart=0.02))


def test_no_guarantee_is_not_the_same_as_nothing_sent():
    found = results({LOCAL: FLAT, GLOBAL: FLAT, OURS: FLAT})
    found.bytes_up[1:] = 100
    said = [text.epsilon(found, name) for name in (LOCAL, GLOBAL, OURS)]
    assert said == ["nothing sent", "no guarantee", "no guarantee"]


def test_promise_is_written_with_decimals_only_where_needed():
    assert text.promise(0.1) == "90%"
    assert text.promise(0.025) == "97.5%"


def test_too_few_records_are_reported():
    (note,) = text.too_few(results({LOCAL: FLAT, GLOBAL: FLAT, OURS: FLAT}, alpha=0.01))
    assert "Local had too few records for α = 0.01 at Mercy in 2 of 5" in note


@pytest.mark.parametrize(
    ("n", "short"),
    [(0, "0 B"), (808, "808 B"), (999.6, "1.0 kB"), (5480, "5.5 kB"), (173_224, "173 kB")],
)
def test_bytes(n, short):
    assert text.data_size(n) == short


def test_a_strict_alpha_is_reported_and_drawn():
    """α = 0.01, for which 45 records are too few: counted instead of warned about."""
    done: list[int] = []
    strict = DemoResults.of(runner.in_memory(study.DemoStudy(0.01), 2, 0, done.append))
    assert done == [1, 2]
    small = strict.hospitals.index(data.SMALL)
    assert strict.too_few[LOCAL, data.SMALL.name] == 2
    assert strict.size[:, strict.names.index(LOCAL), small].min() == 10
    for draw in (study.coverage, study.set_sizes, study.score_curves, study.label_mix):
        plot = draw(strict)
        assert "α = 0.01" in plot.caption
        assert "2 splits" in plot.caption or "2 random splits" in plot.caption
        check_texts(plot.wide)
        check_texts(plot.narrow)
        assert plot.narrow.get_figwidth() == NARROW

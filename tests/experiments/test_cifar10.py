"""The CIFAR-10 study: the same twice, whatever file it is given, and refused files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.experiments import records, runner
from fedcover.experiments.cifar10 import SCORES, TEMPERATURE, Cifar10Study
from fedcover.experiments.compare import COMPETITORS
from fedcover.experiments.federations import Records, cifar10, cifar10_records
from fedcover.experiments.sections import within
from fedcover.report.page import Plot
from fedcover.scores import APS

from .conftest import check_figures


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return runner.run(Cifar10Study(), tmp_path_factory.mktemp("cifar10"), 3)


def _logits(path: Path, n: int = 400, classes: int = 10) -> Path:
    rng = np.random.default_rng(1)
    labels = np.arange(n) % classes
    logits = rng.normal(size=(n, classes)) + 3 * np.eye(classes)[labels]
    np.savez(path, logits=logits, labels=labels)
    return path


def test_a_repetition_depends_on_its_number_and_the_seed_alone(results):
    again = records.of_rows(runner.repeated(Cifar10Study(), 0, range(2, 3)), {})
    kept = results.where(repetition=2)
    for column in again.columns:
        assert again.columns[column].tolist() == kept.columns[column].tolist()
    other = runner.repeated(Cifar10Study(), 1, range(2, 3))
    assert other[0]["coverage"] != kept.columns["coverage"][0]


def test_rows(results):
    assert list(results.columns) == ["repetition", "u", "method", "coverage", "size", "threshold"]
    assert len(results) == 3 * len(SCORES) * len(COMPETITORS)
    assert (results.columns["coverage"] > 0).all()
    assert (results.columns["size"] > 0).all()  # also in repetition 0 of seed 0


def test_every_figure_states_n_alpha_and_repetitions(results):
    sections = Cifar10Study().sections(results)
    check_figures(sections)
    plots = [s for s in sections if isinstance(s, Plot)]
    assert len(plots) == 4
    for p in plots:
        for text in ("3 repetitions", "α = 0.1", "n = 5000"):
            assert text in p.caption


def test_agreement_says_why_global_differs(results):
    rows = {a.what: a for a in Cifar10Study().agreement(results)}
    assert "our network, not the paper's" in rows["Global, random U"].band
    assert rows["Global, random U"].agrees == (
        abs(float(rows["Global, random U"].difference)) < 0.02
    )


def test_sizes_and_label_shares_are_the_papers():
    fed = cifar10(cifar10_records(None, TEMPERATURE), APS())
    draw = fed.draw(np.random.default_rng(0))
    assert [len(s) for s in draw.sites] == [350, 2150, 350, 50, *[350] * 6]
    assert draw.target == "agent 4"
    assert abs((draw.sites[1].labels == 1).mean() - 0.55) < 0.05  # 4.7 standard deviations
    assert draw.weights[draw.labels == 3].sum() == pytest.approx(0.55)
    assert draw.weights.sum() == pytest.approx(1)


def test_parts_give_the_scores_of_the_score_class():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(10), size=60), rng.integers(0, 10, 60)
    data = Records.of([(probs[:25], labels[:25]), (probs[25:], labels[25:])], 60, 10)
    everything = np.arange(60)
    for u in (0.0, 0.3, 1.0):
        score = APS(u=u)
        np.testing.assert_allclose(
            data.scores(everything, score, rng), score.of_labels(probs, labels)
        )
        parts = data.panel_above + np.float32(u) * data.panel_probs
        np.testing.assert_allclose(parts, score.of_all(probs), atol=1e-6)


def test_a_users_file(tmp_path):
    study = Cifar10Study(str(_logits(tmp_path / "mine.npz")))
    settings = study.settings()
    assert settings["data"].startswith("file mine.npz, SHA-256 ")
    assert settings["n_test"] == 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoverWarning)
        rows = study.repetition(0, 0)
    assert len(rows) == len(SCORES) * len(COMPETITORS)


def test_a_changed_file_is_another_run(tmp_path):
    path = _logits(tmp_path / "mine.npz")
    before = Cifar10Study(str(path)).settings()
    _logits(path, n=800)
    cifar10_records.cache_clear()
    assert Cifar10Study(str(path)).settings() != before


@pytest.mark.parametrize("what", ["missing", "text", "no labels", "five classes", "few"])
def test_bad_files_give_one_clear_error(tmp_path, what):
    path = tmp_path / "bad.npz"
    if what == "text":
        path.write_text("no archive")
    elif what == "no labels":
        np.savez(path, logits=np.zeros((50, 10)))
    elif what == "five classes":
        _logits(path, classes=5)
    elif what == "few":
        _logits(path, n=12)
    with pytest.raises(FedcoverError, match=r"bad\.npz.*Allowed"):
        Cifar10Study(str(path)).settings()


def test_which_methods_are_near_the_target():
    text = within({"a": np.array([0.9]), "b": np.array([0.8]), "c, d": np.array([0.95])})
    near, below, above = (part.split(": ")[1] for part in text.removesuffix(".").split(". "))
    assert (near, below, above) == ("a", "b", "c, d")
    assert "below" not in within({"a": np.array([0.9])}).lower()

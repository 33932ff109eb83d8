"""The ImageNet study: its sources of data, its federation, and that synthetic is called so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.experiments import imagenet, records, runner, studies
from fedcover.experiments.compare import NUMBERS
from fedcover.experiments.federations import imagenet as federation
from fedcover.experiments.imagenet import COMPETITORS, ImageNetStudy, source
from fedcover.report.page import Plot
from fedcover.scores import APS

from .conftest import check_figures, logits_file


@pytest.fixture(scope="module")
def results(file, tmp_path_factory):
    return runner.run(ImageNetStudy(file), tmp_path_factory.mktemp("imagenet"), 3)


def test_a_repetition_depends_on_its_number_and_the_seed_alone(file, results):
    again = records.of_rows(runner.repeated(ImageNetStudy(file), 0, range(1, 2)), {})
    kept = results.where(repetition=1)
    for column in again.columns:
        same = (again.columns[column], kept.columns[column])
        assert np.array_equal(*same, equal_nan=column in NUMBERS)


def test_rows(results):
    assert list(results.columns) == ["repetition", "method", "coverage", "size", "threshold"]
    assert len(results) == 3 * len(COMPETITORS)
    size, method = results.columns["size"], results.columns["method"]
    assert (size[~np.isnan(size)] > 0).all()
    assert set(method[np.isnan(size)]) == {"Sketch, ε = 2"}  # 1200 records of 100 labels


def test_sections_and_agreement_of_a_file_do_not_say_synthetic(file, results):
    study = ImageNetStudy(file)
    sections = study.sections(results)
    check_figures(sections)
    plots = [s for s in sections if isinstance(s, Plot)]
    assert len(plots) == 4
    for p in plots:
        assert "3 repetitions" in p.caption
        assert "α = 0.1" in p.caption
        assert "n = 1" in p.caption
        assert "file mine.npz" in p.caption
        assert "synthetic" not in p.title + p.caption
    assert "Sketch, ε = 2" in plots[2].caption + plots[3].caption
    assert "refused" in sections[-1].rows[list(COMPETITORS).index("Sketch, ε = 2")]
    rows = study.agreement(results)
    assert not any("synthetic" in a.what + a.band for a in rows)
    assert "other outputs than the paper's" in rows[0].band


def test_few_records_per_label_are_said_to_raise_coverage(file, results):
    rows = {a.what: a.band for a in ImageNetStudy(file).agreement(results)}
    assert results.settings["records_per_hard_label"] == pytest.approx(2.65, abs=0.05)
    assert "in every set" in rows["Oracle"]
    assert "in every set" not in rows["Global"]
    assert "covers more than 1-α" in ImageNetStudy(file).sections(results)[0].paragraphs[-1]


def test_synthetic_data_are_called_so_everywhere(file, results):
    facts = {**results.settings, "synthetic": True, "data": imagenet.STANDIN}
    fake = records.Results(results.columns, {**results.metadata, "settings": facts})
    sections = ImageNetStudy().sections(fake)
    assert "NOT ImageNet" in sections[0].paragraphs[0]
    for s in sections[1:]:
        assert "synthetic" in s.title
        assert "synthetic" in s.caption
    assert all("synthetic" in a.what for a in ImageNetStudy().agreement(fake))


def test_the_stand_in_has_full_size_and_global_misses_clearly():
    study = ImageNetStudy()
    settings = study.settings()
    assert settings["synthetic"]
    assert (settings["records"], settings["labels"], settings["n_test"]) == (50_000, 1000, 10_000)
    assert settings["sizes"] == [*[3950] * 10, 500]
    draw = federation(imagenet.records_of(None), APS(), 0.9).draw(np.random.default_rng(0))
    pooled = np.quantile(np.concatenate([s.scores for s in draw.sites]), 0.9)
    assert draw.coverage(np.full(1000, pooled)) < 0.86  # measured: .822 ± .005
    assert 500 < len(draw.scores) < 1500  # of the panel, what fell into the test part


def test_the_stand_in_is_like_the_outputs_of_a_real_network():
    """Beside torchvision's ResNet-50 on 5000 images of ImageNet, temperature 10, U at its mean."""
    data = imagenet.records_of(None)
    scores = data.above + 0.5 * data.own
    assert (data.above == 0).mean() == pytest.approx(0.756, abs=0.01)
    real = {0.1: 0.0018, 0.25: 0.0025, 0.5: 0.0037, 0.75: 0.0065, 0.9: 0.0141, 0.95: 0.0253}
    np.testing.assert_allclose(np.quantile(scores, list(real)), list(real.values()), rtol=0.25)
    inside = np.array([scores[data.labels == k].var(ddof=1) for k in range(1000)]) / 50
    between = data.mean_scores(0.5).var() - inside.mean()
    assert np.sqrt(between) == pytest.approx(0.0048, rel=0.1)


def test_agents_hold_the_shares_of_the_groups(file):
    fed = federation(imagenet.records_of(file), APS(), 0.9)
    easy = fed.priors[0] > fed.priors[10]
    assert easy.sum() == 50
    np.testing.assert_allclose(fed.priors[:10, easy].sum(axis=1), 0.9)
    np.testing.assert_allclose(fed.priors[10, ~easy].sum(), 0.9)
    draw = fed.draw(np.random.default_rng(0))
    assert draw.weights[~easy[draw.labels]].sum() == pytest.approx(0.9)
    assert draw.sites[10].label_counts.sum() == 10 * len(draw.sites[10])


def test_sources_in_order(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDCOVER_DATA", raising=False)
    assert source(None) is None
    assert source(Path("mine.npz")) == "mine.npz"
    monkeypatch.setenv("FEDCOVER_DATA", str(tmp_path))
    assert source(None) is None
    (tmp_path / imagenet.SUBSET).touch()
    assert source(None) == str(tmp_path / imagenet.SUBSET)
    assert source(Path("mine.npz")) == "mine.npz"
    assert [s.name for s in studies(["imagenet", "shift"])] == ["imagenet", "shift"]


def test_a_file_of_few_classes_is_refused(tmp_path):
    path = logits_file(tmp_path / "ten.npz", n=100, classes=10)
    with pytest.raises(FedcoverError, match=r"ten\.npz has 100 records and 10 classes"):
        ImageNetStudy(path).settings()

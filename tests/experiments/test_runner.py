"""The runner: the same table however it is run, and resumable."""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedcover as fc
from fedcover import experiments
from fedcover.cli.reproduce import reproduce
from fedcover.experiments import NAMES, records, runner
from fedcover.experiments.algorithm1 import Published
from fedcover.experiments.cifar10 import Cifar10Study
from fedcover.experiments.compare import rows_of
from fedcover.experiments.federations import Simulated
from fedcover.experiments.records import Results
from fedcover.experiments.simulated import SimulatedStudy
from fedcover.experiments.study import Agreement, Row
from fedcover.privacy.randomness import SeededBytes
from fedcover.scores import APS

pytestmark = pytest.mark.slow

BUDGET = fc.Privacy(2.0, 1e-5, view="secure-sum")


@dataclass(frozen=True)
class Small:
    """A study of two private methods; at module level, so that other processes find it.

    diary : a file that gets a line for every repetition computed. stop : raise from this one on.
    """

    diary: str = ""
    stop: int = 1_000_000
    alpha: float = 0.2
    name: ClassVar[str] = "simulated"
    title: ClassVar[str] = "A small study"
    repetitions: ClassVar[int] = 6
    quick: ClassVar[int] = 2

    def settings(self) -> dict[str, Any]:
        return {"alpha": self.alpha}

    def repetition(self, seed: int, r: int) -> list[Row]:
        if r >= self.stop:
            raise RuntimeError("the power fails")
        if self.diary:
            with Path(self.diary).open("a") as file:
                file.write(f"{r}\n")
        sites = _sites(np.random.default_rng([seed, r]))
        rows, engine = [], fc.engines.InProcess(source=SeededBytes(seed, r))
        for method in (fc.methods.DPFedCP(), fc.methods.Sketch()):
            cal = fc.calibrate(sites, self.alpha, method, "b", BUDGET, engine, seed=r)["b"]
            rows.append({"method": method.label, "threshold": float(cal.thresholds.max())})
        return rows

    def sections(self, results: Results) -> list[Any]:
        return []

    def agreement(self, results: Results) -> list[Agreement]:
        return [Agreement("Fig. 0", "rows", "12", str(len(results)), "", True, "equal")]


def _sites(rng: np.random.Generator) -> list[fc.Site]:
    return [fc.Site(n, rng.random(200), rng.integers(0, 3, 200), n_classes=3) for n in "ab"]


def _same(a: Results, b: Results) -> bool:
    """Bit for bit, column by column."""
    return list(a.columns) == list(b.columns) and all(
        a.columns[n].tobytes() == b.columns[n].tobytes() for n in a.columns
    )


def _done(diary: Path) -> list[int]:
    return [int(line) for line in diary.read_text().split()]


def test_one_and_two_workers_give_the_same_table(tmp_path):
    one = runner.run(Small(), tmp_path / "one", 5, seed=3)
    before = dict(os.environ)
    with runner.processes(2) as executor:
        two = runner.run(Small(), tmp_path / "two", 5, seed=3, executor=executor)
    assert dict(os.environ) == before
    assert _same(one, two)
    assert one.columns["repetition"].tolist() == [r for r in range(5) for _ in range(2)]
    assert len(set(one.values("threshold", method="DP-FedCP"))) == 5  # and not all alike
    other = runner.run(Small(), tmp_path / "other", 5, seed=4)
    assert not _same(one, other)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "CHUNKS", 3)
    diary = tmp_path / "diary"
    with pytest.raises(RuntimeError, match="power"):
        runner.run(Small(str(diary), stop=4), tmp_path / "a", 6)
    assert _done(diary) == [0, 1, 2, 3]
    told: list[int] = []
    resumed = runner.run(Small(str(diary)), tmp_path / "a", 6, on_progress=told.append)
    assert _done(diary) == [0, 1, 2, 3, 4, 5]  # nothing twice
    assert told == [4, 6]
    assert not list((tmp_path / "a").glob("*.parts"))
    assert _same(resumed, runner.run(Small(), tmp_path / "b", 6))
    runner.run(Small(str(diary)), tmp_path / "a", 6)
    assert len(_done(diary)) == 6  # a finished run is not repeated


@pytest.mark.parametrize("change", ["setting", "seed", "repetitions"])
def test_parts_and_results_of_another_run_are_not_used(tmp_path, monkeypatch, change):
    monkeypatch.setattr(runner, "CHUNKS", 3)
    diary = tmp_path / "diary"
    with pytest.raises(RuntimeError):
        runner.run(Small(str(diary), stop=4), tmp_path, 6)
    new = Small(str(diary), alpha=0.3 if change == "setting" else 0.2)
    count, seed = 4 if change == "repetitions" else 6, int(change == "seed")
    diary.unlink()
    results = runner.run(new, tmp_path, count, seed=seed)
    assert _done(diary) == list(range(count))
    fresh = runner.run(Small(alpha=new.alpha), tmp_path / "fresh", count, seed=seed)
    assert _same(results, fresh)
    again = runner.run(Small(str(diary)), tmp_path, 6)  # nor is a finished one
    assert again.settings == {"alpha": 0.2}
    assert _done(diary)[count:] == [4, 5]  # the old run's own parts are still good


def test_results_carry_settings_versions_and_seed(tmp_path):
    runner.run(Small(), tmp_path, 2, seed=7)
    facts = records.load(tmp_path / "simulated.parquet").metadata
    assert facts["settings"] == {"alpha": 0.2}
    assert (facts["seed"], facts["repetitions"], facts["experiment"]) == (7, 2, "simulated")
    assert facts["versions"]["fedcover"] == fc.__version__
    assert {"python", "numpy", "scipy", "numba", "dp-accounting"} <= set(facts["versions"])
    json.dumps(facts)  # plain numbers and texts


def test_redrawing_computes_nothing(tmp_path, monkeypatch):
    diary = tmp_path / "diary"
    monkeypatch.setattr(experiments, "studies", lambda names, logits: [Small(str(diary))])
    reproduce("simulated", tmp_path / "out", repetitions=2)
    page = tmp_path / "out" / "simulated.html"
    before = page.read_text()
    page.unlink()
    monkeypatch.setattr(experiments, "studies", lambda names, logits: [Small(str(diary), stop=0)])
    reproduce("simulated", tmp_path / "out", redraw=True)
    # Sorted, because settings and versions come back from the table in alphabetical order.
    assert sorted(page.read_text().split("\n")) == sorted(before.split("\n"))
    assert sorted(_done(diary)) == [0, 1]
    with pytest.raises(fc.FedcoverError, match="does not exist"):
        reproduce("simulated", tmp_path / "elsewhere", redraw=True)


def test_warnings_of_small_sites_stay_inside(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(SimulatedStudy(), tmp_path, 1)


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_run_on_ray_gives_the_same_table(tmp_path, nothing_left_open):
    ray = pytest.importorskip("ray")
    study = SimulatedStudy()  # workers of Ray find the package, not the tests
    try:
        far = runner.run(study, tmp_path / "ray", 2, executor=runner.on_ray)
    finally:
        ray.shutdown()
    assert _same(far, runner.run(study, tmp_path / "here", 2))


@pytest.mark.parametrize("content", [b"", b"PAR1 but not really", b"a,b\n1,2\n"])
def test_a_broken_table_gives_one_clear_error(tmp_path, content):
    (tmp_path / "simulated.parquet").write_bytes(content)
    with pytest.raises(fc.FileError, match="not a results table"):
        runner.run(Small(), tmp_path, 2)


def test_a_table_of_something_else_gives_the_same_error(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "simulated.parquet")
    with pytest.raises(fc.FileError, match="not a results table"):
        records.load(tmp_path / "simulated.parquet")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"what": "cifar"}, "experiment is 'cifar'"),
        ({"repetitions": 1}, "repetitions is 1"),
        ({"seed": -1}, "seed is -1"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(tmp_path, given, said):
    with pytest.raises(fc.FedcoverError, match=said):
        reproduce(**{"what": "simulated", "out_dir": tmp_path / "out", **given})
    assert not list(tmp_path.rglob("*.parquet"))


def test_the_seed_reaches_what_a_method_draws_itself():
    draw = Simulated(APS()).draw(np.random.default_rng(0))
    kinds = {"subsample": Published(0.5), "noise": Published(0.5, 10.0, subsample=False)}
    found = {seed: rows_of(draw, kinds, SeededBytes(seed, 3)) for seed in (0, 1)}
    for k in range(len(kinds)):
        assert found[0][k]["threshold"] != found[1][k]["threshold"]
    assert rows_of(draw, kinds, SeededBytes(0, 3)) == found[0]


def test_a_smaller_run_does_not_replace_a_larger_one(tmp_path):
    runner.run(Small(), tmp_path, 6)
    with pytest.raises(fc.FedcoverError, match="holds 6 repetitions of another run, more than 2"):
        runner.run(Small(), tmp_path, 2)
    assert records.load(tmp_path / "simulated.parquet").repetitions == 6


def test_other_code_or_libraries_are_another_run(tmp_path, monkeypatch):
    diary = tmp_path / "diary"
    runner.run(Small(str(diary)), tmp_path, 2)
    monkeypatch.setattr(records, "code", lambda: "edited")
    runner.run(Small(str(diary)), tmp_path, 2)
    versions = records.versions() | {"numpy": "0.1"}
    monkeypatch.setattr(records, "versions", lambda: versions)
    runner.run(Small(str(diary)), tmp_path, 2)
    assert len(_done(diary)) == 6


def test_real_studies_do_not_depend_on_the_number_of_workers(tmp_path):
    tables = []
    for workers in (1, 2):
        with runner.processes(workers) as executor:
            tables.append(runner.run(Cifar10Study(), tmp_path / str(workers), 4, executor=executor))
    assert _same(*tables)


def test_every_experiment_has_its_name():
    assert [study.name for study in experiments.studies(NAMES)] == list(NAMES)


@pytest.mark.parametrize("name", ["simulated", "theory", "demo"])
def test_logits_are_refused_where_nothing_uses_them(tmp_path, name):
    with pytest.raises(fc.FedcoverError, match="does not use a file of logits"):
        reproduce(name, tmp_path / "out", logits=tmp_path / "mine.npz")


def test_logits_that_fit_no_experiment_are_refused_before_any_is_run(tmp_path):
    path = tmp_path / "twelve.npz"
    np.savez(path, logits=np.zeros((60, 12)), labels=np.arange(60) % 12)
    with pytest.raises(fc.FedcoverError, match="has 12 classes"):
        reproduce("all", tmp_path / "out", logits=path)
    assert not list(tmp_path.rglob("*.parquet"))


def test_without_pyarrow_nothing_is_computed(tmp_path, monkeypatch):
    diary = tmp_path / "diary"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(fc.FedcoverError, match="extra reproduce"):
        runner.run(Small(str(diary)), tmp_path, 2)
    assert not diary.exists()


def test_what_a_crash_left_after_the_last_chunk_is_cleared(tmp_path):
    mark = runner.run(Small(), tmp_path, 2).metadata["mark"]
    left = tmp_path / f"simulated-{mark}.parts"
    left.mkdir()
    (left / "0-1.parquet").write_bytes(b"")
    runner.run(Small(), tmp_path, 2)
    assert not left.exists()

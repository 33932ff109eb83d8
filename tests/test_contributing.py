"""CONTRIBUTING.md, done: its blocks go into a copy of the package, and its commands run there."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedcover as fc
from fedcover.experiments import runner

ROOT = Path(__file__).parents[1]
SECTIONS = {
    head: text
    for head, _, text in (
        part.partition("\n")
        for part in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")
    )
}
ADDING = [head for head in SECTIONS if head.startswith("Adding ")]
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


def blocks(head: str, kind: str) -> list[tuple[str, str]]:
    """The blocks of a section, each with the file it is about, if any."""
    return [(path, text) for k, path, text in FENCE.findall(SECTIONS[head]) if k == kind]


def change(copy: Path, head: str) -> set[str]:
    """Do what the blocks of a section say; the files that were touched."""
    touched = {path for path, _ in blocks(head, "python") + blocks(head, "diff") if path}
    for path in touched:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).exists() and not (copy / path).exists():
            shutil.copy(ROOT / path, copy / path)
    for path, text in blocks(head, "python"):
        if path:
            assert not (copy / path).exists(), f"{path} is said to be new"
            (copy / path).write_text(text, encoding="utf-8")
    for path, text in blocks(head, "diff"):
        lines = text.splitlines(keepends=True)
        before, after = ("".join(x[1:] for x in lines if x[0] in both) for both in (" -", " +"))
        old = (copy / path).read_text(encoding="utf-8")
        assert old.count(before) == 1, f"{path} has {old.count(before)} times:\n{before}"
        (copy / path).write_text(old.replace(before, after), encoding="utf-8")
    return touched


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with everything on the page added, and site files beside it."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src/fedcover", folder / "src/fedcover", ignore=ignored)
    for head in ADDING:
        change(folder, head)
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        labels = rng.integers(0, 3, 60)
        probs = rng.dirichlet([1, 1, 1], 60)
        np.savez(folder / f"site-{name}.npz", probs=probs, labels=labels)
    return folder


@pytest.mark.parametrize(
    "head",
    [pytest.param(h, marks=[pytest.mark.slow] * (h == "Adding an experiment")) for h in ADDING],
)
def test_what_is_added_works(head, copy):
    commands = [
        [sys.executable, "-m", "fedcover", *shlex.split(line)[2:]]
        for _, text in blocks(head, "console")
        for line in text.splitlines()
        if line.startswith("$ fedcover ")
    ]
    commands += [[sys.executable, "-c", text] for path, text in blocks(head, "python") if not path]
    assert commands
    for command in commands:
        done = subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_numbers_of_files_are_those_of_the_blocks(tmp_path):
    """The table at the head says how many files a change touches, and each list names them."""
    said = {
        link.removeprefix("#").replace("-", " "): (int(files), int(new))
        for link, files, new in re.findall(
            r"^\| \[[^\]]+\]\((#[^)]+)\) \| (\d+) \| (\d+) \|$",
            SECTIONS["What to touch"],
            re.MULTILINE,
        )
    }
    assert set(said) == {head.lower() for head in ADDING}
    for head in ADDING:
        touched = change(tmp_path / head, head)
        new = {path for path in touched if not (ROOT / path).exists()}
        listed = re.findall(r"^\d\. `([^`]+)`(, new)?:", SECTIONS[head], re.MULTILINE)
        assert {path for path, _ in listed} == touched
        assert {path for path, mark in listed if mark} == new
        assert said[head.lower()] == (len(touched), len(new))


def module(head: str, path: Path):
    """The new file of a section, as a module of somebody else's."""
    name, text = next((name, text) for name, text in blocks(head, "python") if name)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("outside_" + Path(name).stem, path)
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look there
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def sites(federation):
    return federation(np.random.default_rng(1), n_sites=3, least=40, most=60)


def test_a_score_from_outside(monkeypatch, tmp_path):
    added = "".join(
        line[1:] + "\n"
        for line in blocks("Adding a score", "diff")[0][1].splitlines()
        if line[0] == "+" and not line.startswith("+ALL")
    )
    scope = {**vars(fc.scores), "__name__": __name__}
    exec(added, scope)
    ratio = scope["Ratio"]
    probs = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    wanted = [[0, 0.4, 0.6], [0.875, 0.875, 0]]
    np.testing.assert_allclose(ratio().of_all(probs), wanted, rtol=1e-15)
    np.testing.assert_allclose(ratio().distances_of_all(probs), 1 - np.array(wanted), rtol=1e-15)
    rng = np.random.default_rng(0)
    outputs, labels = rng.dirichlet([1, 1, 1], 50), rng.integers(0, 3, 50)
    site = fc.Site.from_probabilities("north", outputs, labels, score=ratio())
    cal = fc.calibrate([site], 0.2, fc.methods.Local())["north"]
    cal.save(tmp_path / "north.json")
    monkeypatch.setitem(fc.scores.ALL, "Ratio", ratio)
    read = fc.Calibration.load(tmp_path / "north.json")
    assert read.score == ratio()
    assert read.predict_set(outputs).coverage(labels) >= 0.8


def test_a_method_from_outside(sites, tmp_path):
    kind = module("Adding a method", tmp_path / "method.py").Histogram
    fc.methods.register(fc.methods.Entry("histogram", kind, ("histogram",)))
    try:
        fine = fc.calibrate(sites, 0.1, kind(bins=100_000))["s0"].thresholds
        pooled = fc.calibrate(sites, 0.1, fc.methods.Pooled())["s0"].thresholds
    finally:
        fc.methods.unregister("histogram")
    assert (fine >= pooled).all()  # rounded up to the edge of a bin, and no further
    np.testing.assert_allclose(fine, pooled, atol=1.01e-5)


def test_an_engine_from_outside(sites, tmp_path):
    lines = []
    engine = module("Adding an engine", tmp_path / "engine.py").Logged(lines.append)
    for method in (fc.methods.DPFedCP(), fc.methods.Sketch()):
        lines.clear()
        there, here = (fc.calibrate(sites, 0.1, method, engine=e)["s1"] for e in (engine, None))
        assert (there.thresholds == here.thresholds).all()
        assert there.cost == here.cost
        assert len(lines) == here.cost.rounds


def test_an_experiment_from_outside(tmp_path):
    study = module("Adding an experiment", tmp_path / "study.py").LoneSite()
    results = runner.in_memory(study, 2, seed=0)
    assert len(results) == 6
    (table,) = study.sections(results)
    assert [row[0] for row in table.rows] == ["20", "100", "500"]

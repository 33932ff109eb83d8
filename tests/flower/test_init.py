"""`fedcover flower init`: a folder that is complete, holds no secret, and overwrites nothing."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedcover.cli import app
from fedcover.engines.flower.run_config import Run
from fedcover.engines.flower.scaffold import FLOWER, folder_texts, write_folder
from fedcover.engines.flower.site_config import SiteConfig
from fedcover.errors import FedcoverError, FileError
from tests.flower.conftest import SITES

ROOT = Path(__file__).parents[2]


def test_the_files_are_those_of_an_app(tmp_path):
    done = CliRunner().invoke(app, ["flower", "init", str(tmp_path / "f"), "--sites", "a,b,c,d"])
    assert done.exit_code == 0, done.output
    assert {str(p.relative_to(tmp_path / "f")) for p in (tmp_path / "f").rglob("*.*")} == {
        "README.md", "nginx.conf", "app/pyproject.toml", "app/fedcover_app.py", "flwr/config.toml",
        "make-test-keys.sh", "sites/a.toml", "sites/b.toml", "sites/c.toml", "sites/d.toml",
    }  # fmt: skip
    assert "BEGIN" not in "".join(p.read_text() for p in written(tmp_path / "f"))  # of a key


def written(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    ("n", "view", "threshold"),
    [(2, "server", 0), (3, "secure-sum", 3), (4, "secure-sum", 3), (9, "secure-sum", 6)],
)
def test_settings_suit_the_number_of_sites(n, view, threshold, tmp_path):
    text = folder_texts([f"s{i}" for i in range(n)], tmp_path)["app/pyproject.toml"]
    run = Run.of(tomllib.loads(text)["tool"]["flwr"]["app"]["config"])
    assert (run.sites, run.view, run.threshold) == (n, view, threshold)
    assert run.make_method().label == "Sketch"


def test_rules_of_a_site_are_rules_that_it_knows(tmp_path):
    config = tomllib.loads(folder_texts(SITES, tmp_path)["sites/harbour.toml"])
    assert SiteConfig.of(config).site_name == "harbour"
    commented = folder_texts(SITES, tmp_path)["sites/harbour.toml"].replace("# methods", "methods")
    SiteConfig.of(tomllib.loads(commented.replace("# exact", "exact").replace("# least", "least")))


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match="nothing is overwritten"):
        write_folder(tmp_path, SITES)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    write_folder(tmp_path / "new", SITES)
    with pytest.raises(FileError, match="is there already"):
        write_folder(tmp_path / "new", SITES)


@pytest.mark.parametrize(
    "names",
    ["one", "a,a", "a,", "a,b c", "a,b;rm", "a,../b", "-a,b", "ä,b", "a,coordinator", "a,roster"],
)
def test_names_that_a_shell_could_misread_are_refused(names, tmp_path):
    with pytest.raises(FedcoverError, match="two or more different names"):
        write_folder(tmp_path / "f", names.split(","))
    assert not (tmp_path / "f").exists()


def test_the_script_makes_keys_once_that_nobody_else_can_read(tmp_path):
    write_folder(tmp_path / "f", SITES)
    script = ["sh", "make-test-keys.sh"]
    done = subprocess.run(script, cwd=tmp_path / "f", capture_output=True, text=True, check=True)
    assert "for tests only" in done.stdout
    keys = tmp_path / "f/keys"
    assert not any(p.stat().st_mode & 0o077 for p in keys.iterdir())
    roster = [line.split() for line in (keys / "roster").read_text().splitlines()]
    assert [words[0] for words in roster] == list(SITES)
    assert all(words[1] == "ecdsa-sha2-nistp384" for words in roster)
    again = subprocess.run(script, cwd=tmp_path / "f", capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "there already" in again.stderr


def test_the_pinned_flower_is_that_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"flwr[simulation]=={FLOWER}" in extras["optional-dependencies"]["flower"]

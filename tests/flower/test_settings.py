"""Settings of runs and nodes: what is documented is what is read, and nothing else is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedcover.engines.flower import run_config as runs
from fedcover.engines.flower import site_config as nodes
from fedcover.engines.remote.codes import CODES
from fedcover.errors import FedcoverError

PAGE = (Path(__file__).parents[2] / "docs/flower.md").read_text(encoding="utf-8")


def rows(marker):
    """The rows of the table after a comment of the page, as lists of cells."""
    table = PAGE.split(f"<!-- {marker}:")[1].split("\n\n")[0].splitlines()[3:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def test_the_page_has_every_setting_of_a_run():
    shown = {key: (f"`{s.usual!r}`".replace("'", '"'), s.says) for key, s in runs.KEYS.items()}
    assert {cells[0].strip("`"): tuple(cells[1:]) for cells in rows("run settings")} == shown


def test_the_page_has_every_setting_of_a_node():
    assert {cells[0].strip("`"): cells[1] for cells in rows("node settings")} == nodes.KEYS


def test_the_page_has_every_word_of_a_site_that_refuses():
    for code, (what, _) in CODES.items():
        assert f"| `{what} (code '{code}')` |" in PAGE


def test_a_run_is_what_is_usual_unless_said():
    run = runs.Run.of({})
    assert {key: getattr(run, key) for key in runs.KEYS} == {
        k: s.usual for k, s in runs.KEYS.items()
    }
    assert run.privacy is None
    assert not run.sums
    assert run.fewest(5) is None
    private = runs.Run.of({"epsilon": 2})
    assert private.sums
    assert [private.fewest(n) for n in (3, 4, 5, 6)] == [2, 3, 4, 4]
    assert runs.Run.of({"epsilon": 2.0, "threshold": 5}).fewest(6) == 5
    assert runs.Run.of({"alpha": "0.05, 0.1"}).alphas == (0.05, 0.1)
    assert runs.Run.of({"alpha": 0.2}).alphas == (0.2,)


@pytest.mark.parametrize("config", [
    {"epsilo": 1.0}, {"sites": "three"}, {"sites": 0}, {"sites": True}, {"epsilon": "2"},
    {"method": "magic"}, {"seconds": 0}, {"resends": -1}, {"threshold": 1.5}, {"run": ""},
    {"run": "a/b"}, {"run": ".."}, {"run": "x" * 101}, {"seed": -1}, {"roster": 3},
])  # fmt: skip
def test_a_setting_that_cannot_be_meant_is_refused(config):
    with pytest.raises(FedcoverError):
        runs.Run.of(config)


@pytest.mark.parametrize("config", [{"alpha": "0.1;0.2"}, {"alpha": "2"}, {"alpha": ""}])
def test_levels_that_cannot_be_meant_are_refused(config):
    with pytest.raises(FedcoverError):
        _ = runs.Run.of(config).alphas


def test_options_reach_the_method():
    run = runs.Run.of({"method": "dp-fedcp", "options": "rounds=20, solver=averaging"})
    assert (run.make_method().rounds, run.make_method().solver) == (20, "averaging")
    with pytest.raises(FedcoverError, match="option"):
        runs.Run.of({"options": "rounds=20"}).make_method()


@pytest.mark.parametrize("config", [
    {"exact": "false"}, {"exact": 1}, {"least-sum": "2"}, {"least-sum": 1}, {"methods": "magic"},
    {"exakt": True},
])  # fmt: skip
def test_a_rule_that_cannot_be_meant_is_refused(config):
    """The text "false" is true in Python: a site must not answer exactly because of that."""
    with pytest.raises(FedcoverError):
        nodes.read_policy(config)


def test_randomised_scores_stay_the_same_from_letter_to_letter(tmp_path):
    from tests.flower.conftest import write_data

    write_data(tmp_path)
    config = {"data": str(tmp_path / "site-harbour.npz"), "state": str(tmp_path / "state")}
    first, again = (nodes.read_site(config).scores for _ in range(2))
    assert (first == again).all()
    other = nodes.read_site(config | {"state": str(tmp_path / "elsewhere")}).scores
    assert (first != other).any()

"""Settings of runs and nodes: what is documented is what is read, and nothing else is accepted."""

from __future__ import annotations

import re
from dataclasses import MISSING
from pathlib import Path

import pytest

from fedcover.engines.flower.run_config import Run
from fedcover.engines.flower.settings import settings_of
from fedcover.engines.flower.site_config import SiteConfig, read_policy, read_site
from fedcover.engines.remote.codes import CODES
from fedcover.engines.remote.policy import SitePolicy
from fedcover.errors import FedcoverError

PAGE = (Path(__file__).parents[2] / "docs/flower.md").read_text(encoding="utf-8")


def rows(marker):
    """The rows of the table after a comment of the page, as lists of cells."""
    table = PAGE.split(f"<!-- {marker}:")[1].split("\n\n")[0].splitlines()[3:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def test_the_page_has_every_setting_of_a_run():
    shown = {
        key: (f"`{one.default!r}`".replace("'", '"'), one.metadata["says"])
        for key, one in settings_of(Run).items()
    }
    assert {cells[0].strip("`"): tuple(cells[1:]) for cells in rows("run settings")} == shown


def test_the_page_has_every_setting_of_a_node():
    usual = {
        key: "" if one.default in (None, False, MISSING) else f"; default {one.default}"
        for key, one in settings_of(SiteConfig).items()
    }
    shown = {
        key: one.metadata["says"] + usual[key].removesuffix(".0")
        for key, one in settings_of(SiteConfig).items()
    }
    assert {cells[0].strip("`"): cells[1] for cells in rows("node settings")} == shown


def test_the_page_has_every_word_of_a_site_that_refuses():
    for code, (what, _) in CODES.items():
        assert f"| `{what} (code '{code}')` |" in PAGE


def test_a_run_is_what_is_usual_unless_said():
    run = Run.of({})
    assert vars(run) == {one.name: one.default for one in settings_of(Run).values()}
    assert type(Run.of({"epsilon": 2}).epsilon) is float
    assert run.privacy is None
    assert not run.sums
    assert run.min_survivors(5) is None
    private = Run.of({"epsilon": 2})
    assert private.sums
    assert [private.min_survivors(n) for n in (3, 4, 5, 6)] == [3, 3, 4, 4]
    trusting = Run.of({"epsilon": 2, "conspirators": 0})
    assert [trusting.min_survivors(n) for n in (3, 4, 5, 6)] == [2, 3, 4, 4]
    assert (trusting.privacy.conspirators, private.privacy.conspirators) == (0, 1)
    assert Run.of({"epsilon": 2.0, "threshold": 5}).min_survivors(6) == 5
    assert Run.of({"alpha": "0.05, 0.1"}).alphas == (0.05, 0.1)
    assert Run.of({"alpha": 0.2}).alphas == (0.2,)


@pytest.mark.parametrize("config", [
    {"epsilo": 1.0}, {"sites": "three"}, {"sites": 0}, {"sites": True}, {"epsilon": "2"},
    {"method": "magic"}, {"seconds": 0}, {"resends": -1}, {"threshold": 1.5}, {"run": ""},
    {"run": "a/b"}, {"run": ".."}, {"run": "x" * 101}, {"seed": -1}, {"roster": 3},
    {"conspirators": -1}, {"conspirators": 1.0},
])  # fmt: skip
def test_a_setting_that_cannot_be_meant_is_refused(config):
    with pytest.raises(FedcoverError):
        Run.of(config)


@pytest.mark.parametrize("config", [{"alpha": "0.1;0.2"}, {"alpha": "2"}, {"alpha": ""}])
def test_levels_that_cannot_be_meant_are_refused(config):
    with pytest.raises(FedcoverError):
        _ = Run.of(config).alphas


def test_options_reach_the_method():
    run = Run.of({"method": "dp-fedcp", "options": "rounds=20, solver=averaging"})
    assert (run.make_method().rounds, run.make_method().solver) == (20, "averaging")
    with pytest.raises(FedcoverError, match="option"):
        Run.of({"options": "rounds=20"}).make_method()


@pytest.mark.parametrize(("config", "says", "fix"), [
    ({"sites": "three"}, "sites is 'three'", "a whole number: how many sites must be there"),
    ({"sites": True}, "sites is True", "a whole number: how many"),
    ({"delta": "1e-5"}, "delta is '1e-5'", "a number: its δ"),
    ({"out": ""}, "out is ''", "a text in quotes: folder at the server"),
    ({"epsilo": 1.0}, "the run configuration has 'epsilo'", "run, method, options, alpha"),
])  # fmt: skip
def test_a_refusal_names_the_key_what_it_says_and_where_it_stands(config, says, fix):
    with pytest.raises(FedcoverError) as found:
        Run.of(config)
    assert found.value.given == says
    assert found.value.allowed.startswith(fix)
    assert found.value.fix == "Correct it in pyproject.toml or in --run-config"


NODE = {"data": "site-harbour.npz", "state": "state"}


@pytest.mark.parametrize("config", [
    {"exact": "false"}, {"exact": 1}, {"least-sum": "2"}, {"least-sum": 1}, {"methods": "magic"},
    {"exakt": True}, {"least_sum": 3}, {"ledger": ""}, {"key": 3}, {"seed": 1.5}, {"logits": "no"},
    {"data": ""}, {"score-u": True}, {"temperature": "1"}, {"conspirators": -1},
    {"conspirators": 1.0}, {"conspirators": None},
])  # fmt: skip
def test_a_rule_that_cannot_be_meant_is_refused(config):
    """The text "false" is true in Python: a site must not answer exactly because of that."""
    with pytest.raises(FedcoverError):
        read_policy(SiteConfig.of(NODE | config))


@pytest.mark.parametrize("key", NODE)
def test_what_a_node_must_say(key):
    with pytest.raises(FedcoverError, match=f"has no '{key}'") as found:
        SiteConfig.of({k: v for k, v in NODE.items() if k != key})
    assert found.value.fix == "Correct it in --node-config"


def test_a_node_is_what_is_usual_unless_said():
    policy = read_policy(SiteConfig.of(NODE | {"partition-id": 1, "num-partitions": 3}))
    assert policy == SitePolicy()
    assert SiteConfig.of(NODE).site_name == "harbour"
    assert SiteConfig.of(NODE | {"name": "haven"}).site_name == "haven"
    told = {"methods": " sketch ,pooled,", "exact": True, "least-sum": 5, "conspirators": 2}
    assert read_policy(SiteConfig.of(NODE | told)) == SitePolicy(("sketch", "pooled"), True, 5, 2)


def test_randomised_scores_stay_the_same_from_letter_to_letter(tmp_path):
    from tests.flower.conftest import write_data

    write_data(tmp_path)
    config = {"data": str(tmp_path / "site-harbour.npz"), "state": str(tmp_path / "state")}
    first, again = (read_site(SiteConfig.of(config)).scores for _ in range(2))
    assert (first == again).all()
    other = read_site(SiteConfig.of(config | {"state": str(tmp_path / "elsewhere")})).scores
    assert (first != other).any()

"""`fedcover privacy` and `fedcover audit`."""

from __future__ import annotations

import pytest

from fedcover.cli.privacy import NO_GAIN
from fedcover.errors import FedcoverError
from tests.test_cli import run, said


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


def rows(output):
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_table_of_the_published_run():
    done = run("privacy")
    assert done.exit_code == 0, done.output
    assert [row[:4] for row in rows(done.output)] == [
        ["10", "1", "46.2", "9.59"],
        ["10", "1,000", "20,852", "2,129"],
        ["30", "1", "10.7", "2.65"],
        ["30", "1,000", "2,506", "294"],
        ["60", "1", "4.65", "1.22"],
        ["60", "1,000", "697", "94.6"],
        ["100", "1", "2.59", "0.699"],
        ["100", "1,000", "284", "44"],
    ]
    claims = [row[4] for row in rows(done.output)]
    assert claims[1::2] == ["-"] * 4  # the paper claims nothing for separate runs
    assert float(claims[0]) < 46.2
    for part in ("Theorem 4.4", "label counts", "∞"):  # what is claimed, and what is not counted
        assert part in said(done)


def test_own_federation():
    done = run("privacy", "--sigma", 30, "--runs", 1, "--sizes", "2x40,500", "--rounds", 5)
    assert "3 sites" in done.output
    assert len(rows(done.output)) == 1


def test_drawing_sites_gains_nothing_unless_all_have_one_size():
    few = ("privacy", "--sigma", 30, "--runs", 1, "--sites-per-round", 2)
    remark = " ".join(NO_GAIN.split())
    assert remark in said(run(*few))
    assert remark not in said(run(*few, "--sizes", "10x40"))


def test_what_the_private_sketch_releases():
    done = run("privacy", "--epsilon", 1, "--delta", 1e-5)
    assert done.exit_code == 0, done.output
    table = rows(done.output)
    together = [row for row in table if row[2] == "all together"]
    assert [row[5] for row in together] == ["1"] * 4
    assert len([row for row in table if row[2] == "label totals"]) == 4
    assert {row[0] for row in table} == {"replace", "add-remove", ""}


@pytest.mark.parametrize(
    "wrong",
    [("--sizes", "many"), ("--sizes", "3x,4"), ("--sizes", "0"), ("--delta", 2), ("--sigma", 0),
     ("--sites-per-round", 12), ("--epsilon", -1)],
)  # fmt: skip
def test_refuses(wrong):
    assert isinstance(run("privacy", *wrong).exception, FedcoverError)


@pytest.mark.slow
def test_audit():
    done = run("audit", "sketch", "--epsilon", 2, "--runs", 5000, "--confidence", 0.9999)
    assert done.exit_code == 0, done.output
    assert "not contradicted" in said(done)
    assert "ε = 2" in said(done)
    done = run("audit", "sketch", "--epsilon", 4, "--claim", 1, "--runs", 10_000,
               "--relation", "add-remove", "--view", "secure-sum")  # fmt: skip
    assert done.exit_code == 3
    assert "CONTRADICTED" in said(done)
    assert "ε = 1" in said(done)
    done = run("audit", "paper", "--runs", 1000)
    assert done.exit_code == 0
    assert "σ_g = 1.736" in done.output


@pytest.mark.parametrize(
    "wrong", [("pooled",), ("sketch", "--view", "x"), ("sketch", "--runs", 3), ("nothing",),
              ("paper", "--epsilon", 0), ("sketch", "--claim", -1, "--runs", 100),
              ("paper", "--view", "secure-sum"), ("sketch", "--option", "bin=3")]
)  # fmt: skip
def test_audit_refuses(wrong):
    assert isinstance(run("audit", *wrong).exception, FedcoverError)

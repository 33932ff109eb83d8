"""Ledgers whose process is killed, whose disk is full, and that many processes use at once.

No lost spend: every reply that left is charged. No double answer: one query, one reply. No
overspend. The deaths themselves are in crashing.py, a program of its own because it forks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def crash(scenario, folder, count):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", Path(__file__).with_name("crashing.py"),
         scenario, folder, str(count)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    if report.get("skipped"):
        pytest.skip("this SQLite does not let its system calls be replaced")
    return report


def killed(folder, count):
    report = crash("kills", folder, count)
    assert report["problems"] == []
    assert report["missed"] == []
    assert report["kills"] >= count
    return report


@pytest.mark.slow
def test_forty_kills(tmp_path):
    assert "random time" in killed(tmp_path, 40)["at"]


@pytest.mark.statistical
def test_two_hundred_kills_at_every_write_point(tmp_path):
    report = killed(tmp_path, 200)
    places = set(report["at"]) - {"random time"}
    assert len(places) == report["ways"] >= 8  # every step, every system call of SQLite


@pytest.mark.slow
def test_the_witness_notices_a_ledger_that_answers_before_it_writes(tmp_path):
    problems = crash("leaky", tmp_path, 12)["problems"]
    assert any("is lost" in problem for problem in problems)


@pytest.mark.slow
def test_killed_while_a_ledger_is_made(tmp_path):
    report = crash("creation", tmp_path, 12)
    assert report["problems"] == []
    assert report["kills"] >= 8


@pytest.mark.slow
def test_a_full_disk_at_every_write(tmp_path):
    report = crash("full-disk", tmp_path, 0)
    assert report["problems"] == []
    assert report["refused"] >= 10
    # A reply leaves only after its journal is gone and the folder without it is on the disk.
    assert report["calls"][-2:] == ["unlink", "openDirectory"]


@pytest.mark.slow
def test_eight_processes_never_exceed_the_budget(tmp_path):
    report = crash("together", tmp_path, 8)
    assert report["problems"] == []
    assert report["answered"] == report["budget"]  # all of it, and no more
    assert report["asked"] == 128
    assert report["refused"] > 0

"""The list of mutants does not age: every patch fits, and every test it names exists."""

from __future__ import annotations

import re

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.running import ROOT, patched

NAMES = [mutant.name for mutant in MUTANTS]


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_a_patch_fits_in_one_place_and_leaves_a_program(mutant):
    sound = (ROOT / mutant.path).read_text(encoding="utf-8")
    broken = patched(mutant, sound)
    assert broken != sound
    compile(broken, mutant.path, "exec")


def test_every_mutant_has_a_name_and_somebody_who_should_notice():
    assert len(NAMES) == len(set(NAMES)) >= 35
    assert all(mutant.audits or mutant.tests for mutant in MUTANTS)


def test_the_tests_that_should_notice_exist():
    for name in {name for mutant in MUTANTS for name in mutant.tests}:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        if test:
            assert re.search(rf"^def {test}\(", (ROOT / path).read_text(encoding="utf-8"), re.M)

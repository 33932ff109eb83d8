"""The published algorithm is caught; the account of it holds."""

from __future__ import annotations

import pytest

from fedcover.audit import audit_paper


@pytest.mark.slow
def test_the_published_algorithm_is_caught():
    found = audit_paper(runs=1_200_000)
    assert found.claim == 0.9
    assert 0.9 < found.lower <= 1.66
    assert found.contradicted
    assert "CONTRADICTED" in found.describe()


def test_the_account_of_the_published_algorithm_holds():
    found = audit_paper(runs=50_000, claim=1.65)
    assert found.accounted == pytest.approx(1.65, abs=0.005)
    assert not found.contradicted


@pytest.mark.statistical
def test_the_published_algorithm_is_caught_by_far():
    """Exact 1.65, claimed .9; about 1.25 is expected of this many runs, ± .05."""
    lower = audit_paper(runs=4_000_000).lower
    print(f"claim .9: lower bound {lower:.2f}")
    assert 1.1 <= lower <= 1.66

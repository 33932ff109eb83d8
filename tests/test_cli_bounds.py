"""`fedcover bounds`: every result, messages in the words of its options, and what helps."""

import numpy as np
import pytest

import fedcover as fc
from fedcover.cli.bounds import advice
from tests.test_cli import names, refused, run, said


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    rng = np.random.default_rng(0)
    for name, n in (("mercy", 200), ("stjohn", 60)):
        y = rng.integers(0, 4, n)
        np.savez(f"site-{name}.npz", logits=rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], labels=y)
    return tmp_path


def test_bounds_prints_every_result(folder):
    done = run("bounds", "site-mercy.npz", "site-stjohn.npz", "--target", "stjohn")
    assert done.exit_code == 0, done.output
    shown = said(done)
    for result in ("Theorem 2.1", "Theorem 2.2", "Equation 11", "Theorem 2.4", "Theorem 3.1"):
        assert result in shown
    with_density = run("bounds", "site-mercy.npz", "--target", "mercy", "--density", 0.1, 9)
    assert with_density.exit_code == 0, with_density.output


def test_bounds_speaks_of_its_own_options(folder):
    files = ["site-mercy.npz", "site-stjohn.npz"]
    for density in ((2, 3), (0.5, 0.5), (0, 2)):
        error = refused("bounds", *files, "--target", "mercy", "--density", *density)
        assert names(error, "--density")
    error = refused("bounds", *files, "--target", "nowhere")
    assert names(error, "'nowhere'")
    assert "mercy, stjohn" in error.allowed
    assert "counts" not in str(error)
    shown = said(run("bounds", *files, "--target", "stjohn"))
    assert "densities" not in shown
    sites = [fc.Site.from_file(file, None, fc.scores.APS(), 0) for file in files]
    assert advice(fc.bounds.federation_bounds(sites, "stjohn", 0.1, 1e-6), "stjohn") in shown


def test_bounds_says_what_helps():
    """The one sentence, whole, and what in it goes by the largest term."""

    def rows(main, shift, value=0.5):
        return [
            fc.bounds.BoundRow("Equation 11, repaired", "", value, shift),
            fc.bounds.BoundRow("Theorem 2.4", "", value, main),
        ]

    assert advice(rows("small sites", "target counts"), "m") == (
        "The bound on the coverage (Theorem 2.4) is dominated by the term 'small sites'; "
        "what helps: more records at the smallest sites."
    )
    helps = {
        "any site": rows("finite sample", "target counts"),
        "frequent at m and rare": rows("largest ratio", "target counts"),
        "rarest label": rows("shift distance", "pooled counts"),
        "occur at no site": rows("shift distance", "pooled counts", float("inf")),
    }
    for words, given in helps.items():
        assert words in advice(given, "m")

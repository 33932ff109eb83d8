"""`fedcover bounds`: every result, messages in the words of its options, and what helps."""

import numpy as np
import pytest
from typer.testing import CliRunner

import fedcover as fc
from fedcover import cli
from fedcover.cli.bounds import _advice


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n in (("mercy", 200), ("stjohn", 60)):
        y = rng.integers(0, 4, n)
        np.savez(f"site-{name}.npz", logits=rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], labels=y)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def refused(*arguments):
    """The message of a command that must fail with an error of ours."""
    done = run(*arguments)
    assert isinstance(done.exception, fc.FedcoverError), done.output
    return str(done.exception)


def test_bounds_prints_every_result(folder):
    done = run("bounds", "site-mercy.npz", "site-stjohn.npz", "--target", "stjohn")
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    for result in ("Theorem 2.1", "Theorem 2.2", "Equation 11", "Theorem 2.4", "Theorem 3.1"):
        assert result in shown
    with_density = run("bounds", "site-mercy.npz", "--target", "mercy", "--density", 0.1, 9)
    assert with_density.exit_code == 0, with_density.output


def test_bounds_speaks_of_its_own_options(folder):
    files = ["site-mercy.npz", "site-stjohn.npz"]
    for density in ((2, 3), (0.5, 0.5), (0, 2)):
        assert "--density" in refused("bounds", *files, "--target", "mercy", "--density", *density)
    message = refused("bounds", *files, "--target", "nowhere")
    assert "mercy, stjohn" in message
    assert "counts" not in message
    shown = " ".join(run("bounds", *files, "--target", "stjohn").output.split())
    assert "densities" not in shown
    last = shown[shown.index("The bound on the coverage") :]
    assert last == (
        "The bound on the coverage (Theorem 2.4) is dominated by the term 'small sites'; "
        "what helps: more records at the smallest sites."
    )


def test_bounds_says_what_helps():
    def rows(main, shift, value=0.5):
        return [
            fc.bounds.BoundRow("Equation 11, repaired", "", value, shift),
            fc.bounds.BoundRow("Theorem 2.4", "", value, main),
        ]

    said = {
        "any site": rows("finite sample", "target counts"),
        "frequent at m and rare": rows("largest ratio", "target counts"),
        "smallest sites": rows("small sites", "target counts"),
        "rarest label": rows("shift distance", "pooled counts"),
        "occur at no site": rows("shift distance", "pooled counts", float("inf")),
    }
    for words, given in said.items():
        assert words in _advice(given, "m")

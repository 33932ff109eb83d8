"""The command line on every terminal: help, completion, exit codes, and screens without symbols."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import typer

import fedcover as fc
from fedcover import cli
from fedcover.cli.screen import WORDS, Screen, in_words
from fedcover.cli.words import at_the_command_line
from tests.test_cli import folder as folder
from tests.test_cli import run, said, stopped

calibrate_command = sys.modules["fedcover.cli.calibrate"]


def commands():
    """Every command by its words."""
    root = typer.main.get_command(cli.app)
    found = {}
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        for sub, below in (inner or {"": command}).items():
            found[f"{name} {sub}".strip()] = below
    return found


@pytest.mark.parametrize("name", commands())
def test_help_has_an_example_that_can_be_typed(name):
    """Its options exist and its arguments are enough; whether the files do is another matter."""
    command = commands()[name]
    (example,) = re.findall(r"Example: fedcover (.*)", command.help)
    words = shlex.split(example)
    assert words[: len(name.split())] == name.split()
    command.make_context(name, words[len(name.split()) :])


@pytest.mark.parametrize("name", commands())
def test_help_has_types_that_people_know(name):
    with click.Context(commands()[name]) as context:
        for parameter in commands()[name].params:
            if getattr(parameter, "hidden", False):
                continue
            shown = parameter.make_metavar(context)
            assert not re.search(r"<|bool|float|integer|path\b", shown, re.IGNORECASE) or (
                isinstance(parameter, click.Argument)
            )
            assert parameter.help, f"{parameter.name} says nothing of itself"


def test_version_and_help():
    assert run("--version").output.strip() == f"fedcover {fc.__version__}"
    shown = said(run("predict", "--help"))
    assert "A .json written by `calibrate`." in shown
    assert "NUMBER" in said(run("calibrate", "--help"))


def test_completion_knows_the_commands():
    surroundings = {
        **os.environ,
        "_FEDCOVER_COMPLETE": "complete_bash",
        "COMP_WORDS": "fedcover p",
        "COMP_CWORD": "1",
    }
    code = "from fedcover.cli import app; app(args=[], prog_name='fedcover')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=surroundings, check=False
    )
    assert done.stdout.split() == ["personalise", "predict", "privacy"]


LEVELS = (("--alpha", "0.1,0.2"), ("--alpha", "0.1", "--alpha", "0.2"), ("--alpha", "0.1, 0.2"))


@pytest.mark.parametrize("options", LEVELS)
def test_levels_with_commas_or_repeated(folder, options):
    done = run("calibrate", "site-mercy.npz", "--out", "o", *options)
    assert done.exit_code == 0, done.output
    assert fc.Calibration.load("o/mercy.json").alpha == (0.1, 0.2)


@pytest.mark.parametrize("given", ["0,1", "ten", "10%", "0.1;0.2", ""])
def test_levels_that_cannot_be_read(folder, given):
    done = run("calibrate", "site-mercy.npz", "--out", "o", "--alpha", given)
    assert isinstance(done.exception, fc.FedcoverError)
    assert "--alpha 0.1" in str(done.exception)


CODES = {
    "a missing file": (["calibrate", "absent.npz", "--out", "o"], 1),
    "a bad value": (["calibrate", "site-mercy.npz", "--alpha", "2", "--out", "o"], 1),
    "a word of other libraries": (
        ["calibrate", "site-mercy.npz", "--confidence-level", "0.9", "--out", "o"],
        1,
    ),
    "an unknown option": (["calibrate", "site-mercy.npz", "--out", "o", "--speed", "9"], 2),
    "an unknown command": (["calibrat"], 2),
    "a missing argument": (["predict", "cal.json"], 2),
    "something found": (["flower", "doctor", "--app", "."], 3),
}


@pytest.mark.parametrize(("words", "code"), CODES.values(), ids=CODES.keys())
def test_exit_codes(folder, monkeypatch, capsys, words, code):
    assert stopped(monkeypatch, capsys, *words)[0] == code


def test_a_budget_has_an_exit_code_of_its_own(folder, monkeypatch, capsys):
    from fedcover.errors import BudgetError

    def spent(*_, **__):
        raise BudgetError("ε would be 3", allowed="at most 2", fix="Ask for less")

    monkeypatch.setattr(calibrate_command, "_calibrations", spent)
    code, _, err = stopped(monkeypatch, capsys, "calibrate", "site-mercy.npz", "--out", "o")
    assert (code, "Ask for less" in err) == (4, True)


SAID = {
    "take epsilon=3.22, view='secure-sum'": "take --epsilon 3.22, --view secure-sum",
    "alpha is 7": "--alpha is 7",
    "rounds is -1": "--option rounds is -1",
    "Use Sketch(most_per_site=...) with unit='site'": (
        "Use --option most_per_site=… with --unit site"
    ),
    "Sketch(), or Local()": "--method sketch, or --method local",
    "write method=fedcover.methods.Sketch()": "write --method sketch",
    "know it to ± 0.1: give local_scores": "know it to ± 0.1: give --use-own-scores",
    "If these are logits, use from_logits or logits=": "--logits",
    "label_counts is [1 2]": "--counts is [1 2]",
    "site 'a': alphabet=3": "site 'a': alphabet=3",
}


@pytest.mark.parametrize(("python", "here"), SAID.items())
def test_messages_use_the_words_of_the_command_line(python, here):
    assert here in at_the_command_line(python)


def test_the_message_that_is_shown_uses_them_too(folder, monkeypatch, capsys):
    words = ["collect", "site-mercy.npz", "--out", "s.npz", "--epsilon", "0.1"]
    _, _, err = stopped(monkeypatch, capsys, *words)
    assert "--epsilon" in err
    assert "epsilon=" not in err


def test_what_words_stand_for_symbols():
    for symbol, word in WORDS.items():
        assert word.isascii(), symbol
    assert in_words("1-α ≥ 0.9 × é", "ascii") == "1-alpha >= 0.9 x e"
    assert in_words("1-α ± 0.1 é", "cp1252") == "1-alpha ± 0.1 é"
    assert in_words("\u6f22", "ascii") == "?"


def test_tables_stay_even_in_words(tmp_path):
    from rich.table import Table
    from rich.text import Text

    path = tmp_path / "out"
    with path.open("w", encoding="ascii") as file:
        table = Table("α", "ε", title=Text("σ and Δ"))
        table.add_row(Text("≥ 0.9"), "∞")
        Screen(file=file, width=60).print(table)
    title, *lines = path.read_text().splitlines()
    assert title.split() == ["sigma", "and", "Delta"]
    assert len({len(line) for line in lines}) == 1
    assert "| alpha  | epsilon" in path.read_text()


EVERY = """
calibrate site-mercy.npz site-stjohn.npz --out o --alpha 0.1,0.2
calibrate site-mercy.npz site-stjohn.npz --out c --method sketch --certify 0.9
calibrate absent.npz --out o
calibrate site-mercy.npz --out o --alpha 0.9
predict o/mercy.json new.npz
evaluate o/mercy.json new.npz
report o/mercy.json new.npz --out r.html
collect site-mercy.npz --out m.npz --epsilon 30
collect site-stjohn.npz --out s.npz --epsilon 30
merge m.npz s.npz --out both.npz
personalise both.npz --counts 1,1,1,1 --out p.json
bounds site-mercy.npz site-stjohn.npz --target mercy
privacy --runs 1 --sigma 10
privacy --epsilon 2 --sizes 3x100
audit sketch --runs 2000
methods
methods --markdown
ledger set-budget mercy.ledger --epsilon 1 --delta 1e-5 --create
ledger show mercy.ledger
ledger export mercy.ledger --out statement.json
flower init app
flower doctor --app app
reproduce nothing
privacy --help
audit --help
--help
"""

ALL = """
import sys
from fedcover.cli import main
for line in open("commands").read().split("\\n"):
    if line:
        sys.argv = ["fedcover", *line.split()]
        try:
            main()
        except SystemExit as end:
            assert end.code in (0, 1, 2, 3, None), (line, end.code)
"""


def printed_as(encoding, lines):
    Path("commands").write_text(lines)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", ALL],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "100"},
        timeout=300,
        check=False,
    )
    text, errors = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert done.returncode == 0, errors
    assert "Traceback" not in errors
    return text, errors


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_every_command_prints_on_every_terminal(folder, encoding):
    text, errors = printed_as(encoding, EVERY)
    assert "alpha" in text
    assert "epsilon" in text
    assert ("α" in text) == ("ε" in text) == (encoding == "utf-8")
    assert "?" not in re.sub(r"did you mean .*\?", "", errors.replace("\n", " "))


@pytest.mark.slow
def test_the_demo_and_an_experiment_print_there_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "demo --out d --repetitions 2\nreproduce simulated --repetitions 2 --out r"
    text, _ = printed_as("ascii", lines)
    assert "coverage" in text


@pytest.mark.parametrize("name", ["con", "NUL", "aux.2", "Lpt1"])
def test_no_file_gets_a_name_that_windows_keeps(name):
    made = calibrate_command._file_name(name)
    assert calibrate_command.RESERVED.fullmatch(made.partition(".")[0]) is None


def test_paths_of_windows_make_file_names():
    assert calibrate_command._file_name("C:\\data\\mercy") == "C_data_mercy"


def test_rounded_tables_are_read_with_a_warning(folder, monkeypatch, capsys):
    with np.load("site-mercy.npz") as file:
        probs = np.exp(file["logits"])
        probs /= probs.sum(axis=1, keepdims=True)
        rows = zip(np.round(probs, 3), file["labels"], strict=True)
        lines = [",".join([*map(str, row), "abcd"[label]]) for row, label in rows]
    (folder / "site-mercy.csv").write_text("\n".join(["a,b,c,d,label", *lines]))
    with pytest.warns(fc.FedcoverWarning, match="rows sum to 1 only within"):
        assert run("calibrate", "site-mercy.csv", "--out", "o").exit_code == 0

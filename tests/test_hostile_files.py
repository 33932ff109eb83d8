"""Files as weapons: much memory from little, stray errors, formulas, names that steer screens."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedcover as fc
from fedcover import cli
from fedcover._io.archives import Archive, BrokenArchive
from fedcover._io.cells import cell_of, text_of
from fedcover._io.files import read_outputs
from fedcover._io.reading import read_whole
from fedcover.engines.flower.site_config import SiteConfig
from fedcover.inputs import is_plain
from fedcover.report.figures import charts, style
from tests.fuzz import __main__ as fuzz
from tests.fuzz import archives, bombs, files, messages, running

PROBS = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])

MOST = 200 << 20
"""Bytes that refusing a file of a megabyte may take."""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("kind", [case.name for case in files.CASES])
def test_a_hostile_file_ends_in_our_error_or_in_none(kind, tmp_path, quick):
    case = next(one for one in files.CASES if one.name == kind)
    tally = running.Tally()
    for number in range(25):
        running.attempt(tally, partial(fuzz.of_file, case), number, tmp_path, kind)
    assert not tally.strays
    assert tally.errors


@pytest.mark.slow
@pytest.mark.parametrize("kind", messages.ATTEMPTS)
def test_a_hostile_message_ends_in_our_error_or_in_none(kind, tmp_path, quick):
    tally = running.Tally()
    for number in range(25):
        running.attempt(tally, messages.ATTEMPTS[kind], number, tmp_path, kind)
    assert not tally.strays
    assert tally.errors


def test_the_fuzzer_notices_what_is_not_ours(tmp_path):
    """A stray exception and a stray warning are found; our own error is none."""
    tally = running.Tally()
    for number, make in enumerate(
        (
            lambda rng, folder: {}["x"],
            lambda rng, folder: np.log(np.zeros(1)),
            lambda rng, folder: fc.Site("a", [2.0], [0], n_classes=3),
            lambda rng, folder: None,
        )
    ):
        running.attempt(tally, make, number, tmp_path, "x")
    assert set(tally.strays) == {0, 1}
    assert (tally.tried, tally.clean, sum(tally.errors.values())) == (4, 1, 1)


def _refused(read, path):
    """Refused with one clear error, and without the memory that it asks for."""
    tracemalloc.start()
    try:
        with pytest.raises(fc.FileError):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("make", bombs.SKETCHES)
def test_a_small_sketch_does_not_ask_for_much_memory(make, tmp_path):
    path = make(tmp_path / "bomb")
    assert path.stat().st_size < 2 << 20
    _refused(fc.SketchResult.load, path)


@pytest.mark.slow
@pytest.mark.parametrize("make", bombs.SITES)
def test_a_small_site_file_does_not_ask_for_much_memory(make, tmp_path):
    path = make(tmp_path / "bomb")
    assert path.stat().st_size < 2 << 20
    _refused(lambda p: fc.Site.from_file(p, "a"), path)


@pytest.mark.slow
def test_json_of_lists_does_not_ask_for_much_memory(tmp_path):
    _refused(fc.Calibration.load, bombs.calibration_of_lists(tmp_path / "bomb"))


@pytest.mark.parametrize("read", [fc.Calibration.load, fc.SketchResult.load])
def test_a_pipe_keeps_nobody_waiting_and_a_device_has_an_end(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(fc.FileError):
            read(path)


@pytest.mark.parametrize("shape", [(2, 3), (2, 2), (2, 4), (2**40,), (0,), (), (-6,)])
def test_an_array_is_as_long_as_its_header_says(shape):
    """No byte more and none less, found before there is room for it."""
    data = archives.archive({"x": archives.head("<f8", shape) + PROBS.tobytes()})
    with Archive(data) as archive:
        if shape == PROBS.shape:
            assert np.array_equal(archive.read(archive.member("x")), PROBS)
        else:
            with pytest.raises(BrokenArchive):
                archive.member("x")


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "\x1b[2J"])
def test_settings_hold_no_text_that_steers(value):
    with pytest.raises(fc.FedcoverError, match="state is"):
        SiteConfig.of({"data": "a.npz", "state": value})


def test_no_more_is_read_than_is_allowed(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_whole(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="longer than 4"):
        read_whole(tmp_path / "x", 4)


SIGNS = "=+-@＝＋－＠"
cells = st.text(st.sampled_from(SIGNS + "'\";,\t\r\n |a1.eé"), max_size=9)


@given(cells)
def test_no_cell_is_run_and_each_is_read_back(text):
    cell = cell_of(text)
    assert text_of(cell) == text
    number = text.lstrip("+-")[:1].isdigit() and cell == text
    assert not cell or cell[0] not in SIGNS + "\t\r\n" or (number and _is_number(text))
    for row in csv.reader(io.StringIO(cell, newline=""), delimiter=";"):
        for part in row[1:]:
            assert not part.strip().startswith(tuple(SIGNS))


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_sets_csv_holds_no_formula_and_is_read_back(tmp_path):
    names = ['=HYPERLINK("http://x","y")', "@b", "c;=d"]
    ids = ["=1+1", "-5", "\tx", "'=x"]
    sets = fc.PredictionSets(np.ones((1, 4, 3), bool), (0.1,), tuple(names))
    sets.to_csv(tmp_path / "sets.csv", ids)
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert [row[0] for row in rows] == ["'=1+1", "-5", "'\tx", "''=x"]
    assert all(row[3].startswith("'=HYPER") for row in rows)
    assert ";'=d" in rows[0][3]
    assert [text_of(row[0]) for row in rows] == ids
    assert text_of(rows[0][3]).split("|") == names


def test_a_site_file_of_such_cells_is_read_back(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*map(cell_of, ("=a", "b", "-c")), "label", "id"])
        writer.writerows([[0.2, 0.3, 0.5, cell_of("=a"), cell_of("@1")]] * 2)
    found = read_outputs(path)
    assert found.label_names == ("=a", "b", "-c")
    assert found.labels.tolist() == [0, 0]
    assert found.ids == ("@1", "@1")


FORMULAS = ["$\\frac{$", "\\$x$", "a $ b", "$a_b$"]


@pytest.mark.figures
@pytest.mark.filterwarnings("error")
def test_names_in_figures_are_plain_text(tmp_path):
    names = [*FORMULAS, "<script>alert(1)</script>", "日本語", "[bold]", "n" * 1000]
    for k, draw in enumerate((_titled, _beside)):
        for width in (style.WIDE, style.NARROW):
            figure = draw(names, width)
            text = style.svg(figure)
            style.save(figure, text, tmp_path, f"{k}")
            assert all(name in text for name in FORMULAS)
            assert "<script>" not in text
            assert "n" * 100 not in text


@style.styled
def _titled(names, width):
    figure, places = style.panels(len(names), 3, width, 0.5, 1.5)
    for axes, name in zip(places, names, strict=True):
        axes.set_title(name)
    return figure


@style.styled
def _beside(names, width):
    figure, axes = style.single(width, 4.0)
    style.named_rows(axes, names)
    style.legend(figure, [style.key(name) for name in names], 2, 1)
    return figure


@pytest.mark.figures
def test_axes_in_powers_of_ten_show_no_dollars():
    figure = charts.sideways({"a": np.array([1e-3, 1.0, 1e4])}, "x", log=True)
    assert "$" not in style.svg(figure)


@pytest.mark.parametrize("name", ["\x1b[2J", "a\u202eb", "a\nb", "\x00", "x" * 1001])
def test_names_that_steer_a_screen_are_refused(name, tmp_path):
    names = ["a", "b", name]
    with pytest.raises(fc.FedcoverError, match="name"):
        fc.Site("a", [0.5], [0], n_classes=3, label_names=names)
    np.savez(tmp_path / "x.npz", probs=PROBS, labels=[0, 1], label_names=np.array(names))
    if name != "\x00":  # which numpy takes for the end of a text
        with pytest.raises(fc.FedcoverError, match="name"):
            fc.Site.from_file(tmp_path / "x.npz")


@pytest.mark.parametrize("name", ["naïve", "5\u00a0%", "می\u200cخواهم", "日本", "$x$", "=1"])
def test_names_of_all_scripts_are_names(name):
    assert is_plain(name)
    site = fc.Site("a", [0.5], [0], n_classes=3, label_names=["a", "b", name])
    assert site.label_names[2] == name


@pytest.mark.parametrize("field", ["target", "guarantee", "reveals", "method", "notes"])
def test_texts_of_a_file_steer_no_screen(field, tmp_path):
    file = json.loads(json.dumps(files.calibrations()[0]))
    body = file["calibration"]
    body[field] = ["\x1b]0;x\x07"] if field == "notes" else "\x1b]0;x\x07"
    file["sha256"] = files.hashed(files.text_of(body))
    (tmp_path / "c.json").write_text(files.text_of(file), "utf-8")
    with pytest.raises(fc.FileError, match="cannot be seen"):
        fc.Calibration.load(tmp_path / "c.json")


def test_markup_in_names_is_shown_and_not_obeyed(tmp_path):
    names = ["[bold]x[/bold]", "[/red]", "[link=http://x]y"]
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 30), rng.integers(0, 3, 30)
    np.savez(tmp_path / "site-a.npz", probs=probs, labels=labels, label_names=np.array(names))
    site = fc.Site.from_file(tmp_path / "site-a.npz", seed=0)
    fc.calibrate([site], 0.1, fc.methods.Local())["a"].save(tmp_path / "a.json")
    for command in (["predict"], ["evaluate"]):
        done = CliRunner().invoke(
            cli.app, [*command, str(tmp_path / "a.json"), str(tmp_path / "site-a.npz")]
        )
        assert done.exit_code == 0
        assert "[bold]x" in done.output.replace("\n", "")


def test_cases_are_the_same_when_they_are_tried_again(tmp_path, quick):
    for case in files.CASES[:2]:
        again = [
            case.write(random.Random("x/1"), tmp_path / case.name).read_bytes() for _ in range(2)
        ]
        assert again[0] == again[1]
